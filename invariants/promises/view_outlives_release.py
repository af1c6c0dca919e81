"""A view that is still held survives the release."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.views import Again, breach, held


def check(item: Again) -> Iterator[Violation]:
    """The held result is what it was."""
    if item.held.first_wrong is not None:
        observed = f"element {item.held.first_wrong} of the released result of step {item.held.gathered_at} changed"
        yield breach(LAW, item, observed, "unchanged while it is held", item.held.first_wrong)


LAW: Law[Again] = Law(
    slug="view-outlives-release",
    family="promises",
    sentence="A gathered tensor that somebody still holds keeps its contents after its parameter is released.",
    why="Autograd and user code keep views longer than the engine knows. Memory that is handed on under them changes "
    "numbers without a trace.",
    rows=("G8", "G9"),
    needs=("release",),
    over=held(released=True),
    check=check,
)
