"""Training on shards is training."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import Evidence
from invariants.law import Law, Violation
from invariants.views import Result, Scalar, after, breach, gathered, must_match, scalars

_STEPPED = after(gathered, "step")
_LOSSES = scalars("forward")


def over(evidence: Evidence) -> Iterator[Result | Scalar]:
    """Parameters gathered after an optimizer step, and losses that the model knows."""
    yield from _STEPPED(evidence)
    yield from (item for item in _LOSSES(evidence) if item.step.outcome == "done")


def check(item: Result | Scalar) -> Iterator[Violation]:
    """Bit for bit what one process without shards computes."""
    if isinstance(item, Result):
        yield from must_match(LAW, item)
    elif item.step.scalar != item.expected:
        yield breach(LAW, item, f"loss {item.step.scalar}", f"{item.expected}")


LAW: Law[Result | Scalar] = Law(
    slug="training-parity",
    family="state",
    sentence="Losses, and parameters after an optimizer step, are those of training the same model unsharded.",
    why="Every part may be right and the whole wrong: a gradient applied twice, a stale parameter in the forward, an "
    "update that reaches some ranks only.",
    rows=("C6", "N8"),
    needs=("step",),
    over=over,
    check=check,
)
