"""Known deviations of FSDP2 on CUDA are there: each pinned case breaks its law, in the way that the entry speaks of."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shardproof.deviations import Deviation, known_deviations
from shardproof.engine import Engine
from shardproof.ranks import Pool

DEVIATIONS = [known for known in known_deviations("fsdp2") if known.device == "cuda"]


@pytest.fixture(scope="module")
def engine(cuda_pool: Pool) -> Iterator[Engine]:
    with Engine("fsdp2", device="cuda", pool_size=3, deadline=60) as opened:
        yield opened


@pytest.mark.parametrize("known", DEVIATIONS, ids=[f"{at} {known.law}" for at, known in enumerate(DEVIATIONS)])
def test_the_pinned_case_deviates(engine: Engine, known: Deviation) -> None:
    verdict = engine.judge(known.case, twice=False)
    broken = [violation for violation in verdict.broken if violation.law == known.law]
    assert broken
    assert all(known.covers(known.case, violation, "cuda") for violation in broken)
