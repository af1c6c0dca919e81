"""The gathered tensor has the parameter's shape."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import Evidence
from invariants.law import Law, Violation
from invariants.views import Result, breach, gathered


def over(evidence: Evidence) -> Iterator[Result]:
    """Every gathered tensor."""
    return (item for item in gathered(evidence) if item.seen is not None)


def check(item: Result) -> Iterator[Violation]:
    """Shapes are equal."""
    if item.seen is not None and item.seen.shape != item.subject.shape:
        yield breach(LAW, item, f"shape {item.seen.shape}", f"shape {item.subject.shape}")


LAW: Law[Result] = Law(
    slug="shape-restored",
    family="gather",
    sentence="A gathered parameter has its own shape: a scalar no dims, a dim of size 0 still a dim.",
    why="A flat or padded tensor holds the right bits in the wrong form, and broadcasting can hide that until it "
    "matters.",
    rows=("G12", "L8", "R2"),
    needs=("gather",),
    over=over,
    check=check,
)
