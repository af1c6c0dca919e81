"""A gathered parameter is the gather buffer itself."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.views import Landed, breach, landed


def check(item: Landed) -> Iterator[Violation]:
    """The result's storage is one that an all-gather received into."""
    if item.seen.storage not in item.ever:
        observed = f"a result in memory of its own ({item.seen.storage_nbytes} bytes)"
        yield breach(LAW, item, observed, "a view of the buffer that the all-gather received into")


LAW: Law[Landed] = Law(
    slug="result-is-view",
    family="promises",
    sentence="What a gather returns is a view of the buffer that was received into.",
    why="A copy costs as much memory again as the parameter, at the moment when memory is scarcest. This is judged by "
    "where the result lies; what a tensor itself says of being a view is lost when autograd is off.",
    rows=("G1",),
    needs=("gather",),
    over=landed,
    check=check,
)
