from __future__ import annotations

from typing import Any

import pytest

from shardproof.ranks import Pool

WORLDS = [(0,), (0, 1), (1, 2, 3)]
# What is planted after a warm gather, and the measurement that must show it.
PLANTS = [("copy", "kernels"), ("allocation", "allocations"), ("item", "syncs"), ("sync", "syncs")]


def measured(pool: Pool, entry: str, ranks: tuple[int, ...], **payload: Any) -> list[Any]:
    reports = pool.run(f"tests.gpu.entries:{entry}", {"ranks": ranks, **payload}, ranks=ranks, deadline=120.0)
    assert all(report.ended == "done" for report in reports), "\n".join(report.story for report in reports)
    return [report.value for report in reports]


def foreign(kernels: list[str]) -> list[str]:
    """GPU work that is not NCCL's. At world size 1 NCCL itself copies device to device."""
    return [name for name in kernels if "nccl" not in name.lower()]


@pytest.mark.parametrize("ranks", WORLDS, ids=str)
def test_a_warm_gather_neither_syncs_nor_allocates_nor_copies(cuda_pool: Pool, ranks: tuple[int, ...]) -> None:
    for seen in measured(cuda_pool, "steady_costs", ranks):
        assert (seen["syncs"], seen["allocations"]) == (0, 0)
        assert len(seen["kernels"]) == 1, seen["kernels"]
        assert len(ranks) == 1 or not foreign(seen["kernels"])


@pytest.mark.parametrize(("plant", "shown_by"), PLANTS)
def test_planted_costs_are_seen(cuda_pool: Pool, plant: str, shown_by: str) -> None:
    for seen in measured(cuda_pool, "steady_costs", (0, 1), plant=plant):
        assert foreign(seen["kernels"]) if shown_by == "kernels" else seen[shown_by]


@pytest.mark.parametrize("ranks", WORLDS, ids=str)
def test_a_gather_can_be_captured_in_a_graph(cuda_pool: Pool, ranks: tuple[int, ...]) -> None:
    assert all(measured(cuda_pool, "captured", ranks))


@pytest.mark.parametrize("ranks", WORLDS, ids=str)
def test_a_prefetch_is_one_collective(cuda_pool: Pool, ranks: tuple[int, ...]) -> None:
    for seen in measured(cuda_pool, "prefetch_calls", ranks):
        assert seen["right"]
        assert len(ranks) == 1 or len(seen["kernels"]) == 1, seen["kernels"]
