"""Known deviations of torch's own sharding are there: each case breaks its law, in the way that the entry speaks of."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

import pytest

from shardproof.deviations import Deviation, known_deviations
from shardproof.engine import Engine

NAMES = ("fsdp2", "dtensor", "fsdp1", "fsdp1_orig_params")
# Those on CUDA are in tests/gpu.
PINNED = [(name, known) for name in NAMES for known in known_deviations(name) if known.applies("cpu", version("torch"))]


@pytest.fixture(scope="module", params=NAMES)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with Engine(request.param, pool_size=3, deadline=60) as opened:
        yield opened


@pytest.mark.parametrize(
    ("engine", "known"),
    PINNED,
    ids=[f"{at} {name} {known.law}" for at, (name, known) in enumerate(PINNED)],
    indirect=["engine"],
)
def test_the_pinned_case_deviates(engine: Engine, known: Deviation) -> None:
    verdict = engine.judge(known.case, twice=False)
    broken = [violation for violation in verdict.broken if violation.law == known.law]
    assert broken
    assert all(known.covers(known.case, violation, "cpu") for violation in broken)
