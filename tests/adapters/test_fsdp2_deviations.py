"""Every known deviation of FSDP2 is one: its pinned case breaks the law, in the way that the entry speaks of."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shardproof.deviations import Deviation, known_deviations
from shardproof.engine import Engine

DEVIATIONS = [known for known in known_deviations("fsdp2") if known.device != "cuda"]  # those are in tests/gpu


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine("fsdp2", pool_size=2, deadline=60) as opened:
        yield opened


@pytest.mark.parametrize("known", DEVIATIONS, ids=[f"{at} {known.law}" for at, known in enumerate(DEVIATIONS)])
def test_the_pinned_case_deviates(engine: Engine, known: Deviation) -> None:
    verdict = engine.judge(known.case, twice=False)
    broken = [violation for violation in verdict.broken if violation.law == known.law]
    assert broken
    assert all(known.covers(known.case, violation, "cpu") for violation in broken)
