"""Every known deviation of Megatron-Core is one: its pinned case breaks the law as the entry says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shardproof.deviations import Deviation, known_deviations
from shardproof.engine import Engine

DEVIATIONS = known_deviations("megatron_core")


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine("megatron_core", pool_size=7, deadline=60) as opened:
        yield opened


@pytest.mark.parametrize("known", DEVIATIONS, ids=[f"{at} {known.law}" for at, known in enumerate(DEVIATIONS)])
def test_the_pinned_case_deviates(engine: Engine, known: Deviation) -> None:
    verdict = engine.judge(known.case, twice=False)
    broken = [violation for violation in verdict.broken if violation.law == known.law]
    assert broken
    assert all(known.covers(known.case, violation, "cpu") for violation in broken)
