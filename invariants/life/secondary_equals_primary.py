"""Every further copy of a parameter follows the first."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.views import Result, after, gathered, must_match, stale


def check(item: Result) -> Iterator[Violation]:
    """What is gathered after the shard was written shows nowhere what was there before; other mistakes are others'."""
    return must_match(LAW, item) if stale(item) else iter(())


LAW: Law[Result] = Law(
    slug="secondary-equals-primary",
    family="life",
    sentence="Once a shard is written, every other copy of it shows the new contents: gathered buffers that are kept, "
    "secondary shards, tied parameters.",
    why="A second copy is there to save communication, and is the first thing to be forgotten in an update. Training "
    "goes on with old weights and looks almost right.",
    rows=("G11", "G5"),
    needs=("update",),
    over=after(gathered, "update", "step"),
    check=check,
)
