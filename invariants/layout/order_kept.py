"""Ranks and offsets rise with the index of the elements they hold."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.runs import end_of
from invariants.views import Claims, claims_owing


def check(item: Claims) -> Iterator[Violation]:
    """Walking through the ranks, and through each shard by offset, element indices only rise."""
    reached = 0
    for rank, claim in item.ranked:
        for run in sorted(claim.runs, key=lambda run: run.local):
            if run.start < reached:
                observed = f"element {run.start} at shard offset {run.local} behind element {reached - 1}"
                yield item.breach(LAW, rank, observed, f"only elements from {reached} on", run.start)
            if run.count > 1 and run.stride < run.length:
                observed = f"blocks of {run.length} elements, {run.stride} apart"
                yield item.breach(LAW, rank, observed, "each block behind the one before", run.start)
            reached = max(reached, end_of(run))


LAW: Law[Claims] = Law(
    slug="order-kept",
    family="layout",
    sentence="Where a layout keeps order, a later rank and a later offset hold a later element.",
    why="An all-gather puts shards behind each other in rank order. Only where order is kept is what it receives the "
    "parameter itself, which needs no copy to become a tensor again.",
    rows=("L2",),
    needs=("layout",),
    over=claims_owing("order-kept"),
    check=check,
)
