"""Known deviations of torch's own sharding are there: each case breaks its law, in the way that the entry speaks of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from importlib.metadata import version

import pytest

from shardproof.deviations import Deviation, known_deviations
from shardproof.engine import Engine

NAMES = ("fsdp2", "dtensor", "fsdp1", "fsdp1_orig_params")
# Those on CUDA are in tests/gpu.
PINNED = [(name, known) for name in NAMES for known in known_deviations(name) if known.applies("cpu", version("torch"))]


@pytest.fixture(scope="module")
def engine_of() -> Iterator[Callable[[str], Engine]]:
    """One engine a name, for all tests: starting one takes longer than most cases."""
    with ExitStack() as opened:
        yield cache(lambda name: opened.enter_context(Engine(name, pool_size=3, deadline=60)))


@pytest.mark.parametrize(
    ("name", "known"), PINNED, ids=[f"{at} {name} {known.law}" for at, (name, known) in enumerate(PINNED)]
)
def test_the_pinned_case_deviates(engine_of: Callable[[str], Engine], name: str, known: Deviation) -> None:
    verdict = engine_of(name).judge(known.case, twice=False)
    broken = [violation for violation in verdict.broken if violation.law == known.law]
    assert broken
    assert all(known.covers(known.case, violation, "cpu") for violation in broken)
