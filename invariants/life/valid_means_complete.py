"""What is said to be available is there, whole and up to date."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.views import Said, breach, said


def check(item: Said) -> Iterator[Violation]:
    """Not after an invalidate, not before every rank has sent its part, and never with other bits than the model's."""
    if item.available and item.step.kind == "invalidate":
        yield breach(LAW, item, "available right after invalidate", "not available before the next gather")
    if item.waiting_for:
        ranks = ", ".join(map(str, item.waiting_for))
        observed = f"available after a prefetch that rank {ranks} had not begun"
        yield breach(LAW, item, observed, "not available before all parts arrived")
    if item.served is not None and item.served[0].bits != item.served[1]:
        observed = f"available, and {item.step.kind} returned stale or incomplete bits without communicating"
        yield breach(LAW, item, observed, "available only with the contents written last")


LAW: Law[Said] = Law(
    slug="valid-means-complete",
    family="life",
    sentence="A parameter that is said to be available is complete and current.",
    why="Validity that is set when a gather starts, or that survives on a buffer which the gather did not fill, makes "
    "consumers read what has not arrived or what is long out of date.",
    rows=("G5", "G6"),
    needs=("gather",),
    over=said,
    check=check,
)
