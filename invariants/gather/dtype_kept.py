"""What comes back has the dtype it went out with."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from invariants.evidence import Evidence
from invariants.law import Law, Violation
from invariants.views import Reduced, Result, breach, gathered, reductions


def over(evidence: Evidence) -> Iterator[Result]:
    """Every gathered parameter and every reduced gradient."""
    return (item for item in chain(gathered(evidence), reductions(evidence)) if item.seen is not None)


def check(item: Result) -> Iterator[Violation]:
    """A parameter has its own dtype, a gradient the one that gradients of this parameter have."""
    dtype = item.dtype if isinstance(item, Reduced) else item.subject.dtype
    if item.seen is not None and item.seen.dtype != dtype:
        yield breach(LAW, item, item.seen.dtype, dtype)


LAW: Law[Result] = Law(
    slug="dtype-kept",
    family="gather",
    sentence="A gathered parameter has its own dtype, and a reduced gradient the gradient's, whatever was used to "
    "communicate.",
    why="Parameter, gradient and communication may each have a dtype of their own. Confusing them fails in the "
    "optimizer at best and silently loses precision at worst.",
    rows=("G4", "N7"),
    needs=("gather",),
    over=over,
    check=check,
)
