"""A second gather receives into memory that a first one used."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import Evidence
from invariants.law import Law, Violation
from invariants.views import Warm, breach, steady


def over(evidence: Evidence) -> Iterator[Warm]:
    """Gathers in a steady state that communicated."""
    return (item for item in steady(evidence) if item.into)


def check(item: Warm) -> Iterator[Violation]:
    """Every storage received into was received into before."""
    fresh = item.into - item.before
    if fresh:
        yield breach(
            LAW, item, f"new buffers in a repeated {item.step.kind}: {len(fresh)}", "none, only buffers used before"
        )


LAW: Law[Warm] = Law(
    slug="buffer-reused",
    family="promises",
    sentence="A parameter that was gathered before, and of which no view is held, is gathered into memory that was "
    "gathered into before.",
    why="Fresh memory on every step fragments the allocator, and the peak grows until the run fails.",
    rows=(),
    needs=("gather",),
    over=over,
    check=check,
)
