"""A gather copies nothing."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.views import Warm, breach, warm


def check(item: Warm) -> Iterator[Violation]:
    """No tensor copy beside the collective."""
    cost = item.step.cost
    if cost.copies:
        yield breach(LAW, item, f"copies in {item.step.kind}: {cost.copies}, of {cost.copied_bytes} bytes", "none")


LAW: Law[Warm] = Law(
    slug="no-extra-copy",
    family="promises",
    sentence="A repeated gather copies no tensor: it sends the shard as it lies and returns what it received into.",
    why="A copy before or after the collective reads and writes the whole parameter once more.",
    rows=(),
    needs=("gather",),
    over=warm,
    check=check,
)
