"""What a gather returned is the caller's to keep."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.views import Again, breach, held


def check(item: Again) -> Iterator[Violation]:
    """The earlier result is what it was."""
    if item.held.first_wrong is not None:
        observed = f"element {item.held.first_wrong} of the result of step {item.held.gathered_at} changed"
        expected = f"unchanged by a {item.step.kind}, the parameter is not released"
        yield breach(LAW, item, observed, expected, item.held.first_wrong)


LAW: Law[Again] = Law(
    slug="earlier-result-intact",
    family="gather",
    sentence="A gathered result is never changed by a later call, until its parameter is released.",
    why="A caller computes with what it was given. A buffer that serves another parameter too early, or the same one "
    "again, changes numbers that are already in use.",
    rows=("G4", "G9", "G10"),
    needs=("gather",),
    over=held(released=False),
    check=check,
)
