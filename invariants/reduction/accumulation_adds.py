"""Gradients accumulated before a reduce are part of it."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import Evidence
from invariants.law import Law, Violation
from invariants.views import Reduced, must_match_owned, reductions


def over(evidence: Evidence) -> Iterator[Reduced]:
    """Reduced shards of parameters for which gradients were accumulated before."""
    return (item for item in reductions(evidence) if item.accumulated)


def check(item: Reduced) -> Iterator[Violation]:
    """The shard's own elements are the reduced sum of all micro-gradients."""
    return must_match_owned(LAW, item)


LAW: Law[Reduced] = Law(
    slug="accumulation-adds",
    family="reduction",
    sentence="A reduce includes every micro-gradient accumulated since the last one.",
    why="Accumulation that keeps only the first or the last micro-step trains on a fraction of each batch, and the "
    "loss still falls.",
    rows=("N8",),
    needs=("accumulate", "reduce"),
    over=over,
    check=check,
)
