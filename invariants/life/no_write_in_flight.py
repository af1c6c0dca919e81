"""Nothing receives into memory that is still being received into."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.views import Write, breach, writes


def check(item: Write) -> Iterator[Violation]:
    """The receive has no byte in common with one that is under way."""
    for other in item.unfinished:
        if item.into.meets(other):
            start, end = max(item.into.start, other.start), min(item.into.end, other.end)
            observed = f"two receives into bytes [{start}, {end}) of one buffer, the first from step {item.started}"
            yield breach(LAW, item, observed, "no write before the first has finished")


LAW: Law[Write] = Law(
    slug="no-write-in-flight",
    family="life",
    sentence="No collective receives into memory that another one, not finished yet, receives into.",
    why="With two buffers for three transfers the third overwrites the first before it was read. Which of the two "
    "wins depends on timing, so tests on a quiet machine pass.",
    rows=("G10",),
    needs=("gather",),
    over=writes,
    check=check,
)
