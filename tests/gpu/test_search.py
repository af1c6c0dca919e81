"""What the search draws, run on NCCL and judged by the oracle that judges gloo: gpu_impl, and the plain control."""

from __future__ import annotations

import pytest

from shardproof.backends import CARRIES
from shardproof.engine import Engine
from shardproof.events import CaseJudged, Event
from shardproof.profiles import Budget
from shardproof.ranks import Pool
from shardproof.search import Plan, search

WORLD_SIZES = (1, 2, 3, 4)


@pytest.mark.parametrize(("implementation", "examples"), [("gpu_impl", 250), ("list_all_gather", 150)])
def test_drawn_cases_hold(cuda_pool: Pool, implementation: str, examples: int) -> None:
    dtypes: set[str] = set()

    def listen(event: Event) -> None:
        if isinstance(event, CaseJudged):
            dtypes.update(parameter.dtype for parameter in event.case.parameters)

    with Engine(implementation, device="cuda", pool_size=max(WORLD_SIZES), deadline=60.0) as engine:
        budget = Budget(examples=examples, seconds=240, shrink_seconds=30)
        result = search(engine, Plan(WORLD_SIZES, max(WORLD_SIZES), "cuda", budget=budget), [listen])
    assert result.failures == ()
    assert result.missing == ()
    assert result.unknown_cases == 0
    assert dtypes == CARRIES["nccl"]
