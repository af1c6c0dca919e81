"""Several streams: nothing is read before it arrived, overwritten or recycled while it is read."""

from __future__ import annotations

import pytest

from shardproof.ranks import Pool
from tests.gpu.stream_entries import SCENARIOS

RANKS = [(0,), (0, 1)]
# scenario, and the mistake that it shows.
PLANTED = [
    ("prefetch sends the update", "no wait for the writer"),
    ("consumer waits for arrival", "waits on the wrong stream"),
    ("reader elsewhere keeps the buffer", "no wait for readers"),
    ("allocator waits for the reader", "allocator not told"),
]


def right_everywhere(pool: Pool, scenario: str, plant: str | None, ranks: tuple[int, ...]) -> bool:
    payload = {"scenario": scenario, "plant": plant, "ranks": ranks}
    reports = pool.run("tests.gpu.stream_entries:in_order", payload, ranks=ranks, deadline=60.0)
    assert [report.ended for report in reports] == ["done"] * len(ranks), [report.story for report in reports]
    return all(report.value for report in reports)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_program_order_is_kept(cuda_pool: Pool, scenario: str, ranks: tuple[int, ...]) -> None:
    assert right_everywhere(cuda_pool, scenario, None, ranks)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize(("scenario", "plant"), PLANTED)
def test_a_planted_mistake_is_seen(cuda_pool: Pool, scenario: str, plant: str, ranks: tuple[int, ...]) -> None:
    assert not right_everywhere(cuda_pool, scenario, plant, ranks)
