"""The norm over ranks is the norm of the whole gradient."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.rounding import norm_rounding
from invariants.views import Scalar, breach, scalars, story_of


def check(item: Scalar) -> Iterator[Violation]:
    """The norm is the model's, up to the roundings of the dtype it may be computed in."""
    if item.step.outcome != "done":
        yield breach(LAW, item, story_of(item.step), "norm done")
        return
    observed, expected = item.step.scalar, item.expected
    if expected is None:
        return
    room = norm_rounding(item.subjects, item.step.world_size) * expected + item.room
    if observed is None or not abs(observed - expected) <= room:  # a NaN is not within any distance
        yield breach(LAW, item, f"norm {observed}", f"{expected}")


LAW: Law[Scalar] = Law(
    slug="norm-matches-unsharded",
    family="reduction",
    sentence="The norm of the reduced gradients is the norm of the whole, unsharded gradient.",
    why="Clipping depends on it. Padding that enters, a shard that is counted twice, or a norm of one rank alone "
    "scales every update by a wrong factor.",
    rows=("N2",),
    needs=("norm",),
    over=scalars("norm"),
    check=check,
)
