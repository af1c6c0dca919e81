"""One gather is one collective."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import Evidence
from invariants.law import Law, Violation
from invariants.views import Warm, breach, warm


def over(evidence: Evidence) -> Iterator[Warm]:
    """Repeated gathers that communicated."""
    return (item for item in warm(evidence) if item.step.cost.calls)


def check(item: Warm) -> Iterator[Violation]:
    """At most one call a gathered parameter; a prefetch has one for all parameters of one dtype."""
    step = item.step
    allowed = len(item.dtypes) if step.kind == "prefetch" else len(step.parameters)
    if len(step.cost.calls) > allowed:
        ops = ", ".join(call.op for call in step.cost.calls)
        observed = f"collectives for parameters {', '.join(step.parameters)}: {len(step.cost.calls)} ({ops})"
        yield breach(LAW, item, observed, f"at most {allowed}")


LAW: Law[Warm] = Law(
    slug="one-collective",
    family="promises",
    sentence="A gather issues one collective, and a prefetch one for all its parameters of a dtype; sizes are not "
    "exchanged again.",
    why="Each collective costs its latency on every rank. What every rank knows from the shape need not be asked.",
    rows=(),
    needs=("gather",),
    over=over,
    check=check,
)
