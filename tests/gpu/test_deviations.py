"""Known deviations on CUDA are there: each pinned case breaks its law, in the way that the entry speaks of."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec

import pytest

from shardproof.deviations import Deviation, known_deviations
from shardproof.engine import Engine
from shardproof.implementations import KNOWN
from shardproof.ranks import Pool

NEEDS = {"fsdp2": "torch", "deepcompile_z3": "deepspeed"}
TORCH = version("torch")
PINNED = [
    (name, known)
    for name in NEEDS
    for known in known_deviations(name)
    if known.applies("cuda", TORCH) and not known.applies("cpu", TORCH)
]


@pytest.fixture(scope="module", params=NEEDS)
def engine(request: pytest.FixtureRequest, cuda_pool: Pool) -> Iterator[Engine]:
    if find_spec(NEEDS[request.param]) is None:
        pytest.skip(f"could not judge: {KNOWN[request.param].install}")
    with Engine(request.param, device="cuda", pool_size=3, deadline=60) as opened:
        yield opened


@pytest.mark.parametrize(
    ("engine", "known"), PINNED, ids=[f"{name} {known.law}" for name, known in PINNED], indirect=["engine"]
)
def test_the_pinned_case_deviates(engine: Engine, known: Deviation) -> None:
    verdict = engine.judge(known.case, twice=False)
    broken = [violation for violation in verdict.broken if violation.law == known.law]
    assert broken
    assert all(known.covers(known.case, violation, "cuda") for violation in broken)
