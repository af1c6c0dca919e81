"""Training on shards is training."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import Evidence
from invariants.law import Law, Violation
from invariants.rounding import norm_rounding
from invariants.views import Reduced, Result, Scalar, after, backwards, breach, gathered, must_match, scalars
from invariants.views import must_match_owned as owned_must_match

_STEPPED = after(gathered, "step")
_NUMBERS = scalars("forward", "clip")


def over(evidence: Evidence) -> Iterator[Result | Scalar]:
    """Parameters gathered after an optimizer step, gradients that a backward returned, and losses and norms."""
    yield from _STEPPED(evidence)
    yield from backwards(evidence)
    yield from (item for item in _NUMBERS(evidence) if item.step.outcome == "done")


def check(item: Result | Scalar) -> Iterator[Violation]:
    """What one process without shards computes: bit for bit where every sum is exact, else as near as rounding is."""
    if isinstance(item, Reduced):
        yield from owned_must_match(LAW, item)
    elif isinstance(item, Result):
        yield from must_match(LAW, item)
    elif item.expected is not None and not _agrees(item, item.expected):
        what = "loss" if item.step.kind == "forward" else "norm before clipping"
        yield breach(LAW, item, f"{what} {item.step.scalar}", f"{item.expected}")


def _agrees(item: Scalar, expected: float) -> bool:
    room = item.room
    if item.step.kind == "clip":
        room += norm_rounding(item.subjects, item.step.world_size) * expected
    return item.step.scalar is not None and abs(item.step.scalar - expected) <= room


LAW: Law[Result | Scalar] = Law(
    slug="training-parity",
    family="state",
    sentence="Losses, gradients, norms, and parameters after an optimizer step, are those of training the same model "
    "unsharded.",
    why="Every part may be right and the whole wrong: a gradient applied twice, a stale parameter in the forward, an "
    "update that reaches some ranks only.",
    rows=("C6", "N8"),
    needs=("step",),
    over=over,
    check=check,
)
