"""The host does not wait for the device."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.views import Warm, breach, warm


def check(item: Warm) -> Iterator[Violation]:
    """No value was read back."""
    if item.step.cost.syncs:
        observed = f"values read back by the host in {item.step.kind}: {item.step.cost.syncs}"
        yield breach(LAW, item, observed, "none")


LAW: Law[Warm] = Law(
    slug="no-host-sync",
    family="promises",
    sentence="A repeated gather reads no value back from the device.",
    why="One read makes the host wait for all work before it, and the device then waits for the host.",
    rows=(),
    needs=("gather",),
    over=warm,
    check=check,
)
