"""A repeated gather allocates nothing."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.views import Warm, breach, steady


def check(item: Warm) -> Iterator[Violation]:
    """No fresh tensor."""
    cost = item.step.cost
    if cost.allocations:
        observed = f"allocations in a repeated {item.step.kind}: {cost.allocations}, of {cost.allocated_bytes} bytes"
        yield breach(LAW, item, observed, "none, the buffers are there")


LAW: Law[Warm] = Law(
    slug="no-steady-state-allocation",
    family="promises",
    sentence="A gather whose buffers exist already allocates no memory.",
    why="Allocation on every step is what fragments memory, and on a device it may have to wait for everything that "
    "was enqueued before.",
    rows=(),
    needs=("gather",),
    over=steady,
    check=check,
)
