"""The norm over ranks is the norm of the whole gradient."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from invariants.evidence import Subject
from invariants.law import Law, Violation
from invariants.views import Scalar, breach, scalars, story_of
from reference import DTYPES, exact_bound


def check(item: Scalar) -> Iterator[Violation]:
    """The norm is the model's, up to the roundings of the dtype it may be computed in."""
    if item.step.outcome != "done":
        yield breach(LAW, item, story_of(item.step), "norm done")
        return
    observed, expected = item.step.scalar, item.expected
    if expected is None:
        return
    room = rounding(item.subjects, item.step.world_size) * expected
    if observed is None or not abs(observed - expected) <= room:  # a NaN is not within any distance
        yield breach(LAW, item, f"norm {observed}", f"{expected}")


def rounding(subjects: tuple[Subject, ...], world_size: int) -> float:
    """The largest relative error of a norm that is computed without a mistake.

    An implementation may square and add in float32, one rounding an element (half of it left by the square root, so
    this is generous), and hold the norm of each parameter, of each rank and of all in the gradient's dtype, one
    rounding each. The unit roundoff of a float is 1 / exact_bound. Never above a quarter: no mistake with a factor
    passes, however narrow the dtype.
    """
    floats = [dtype for dtype in (s.grad_dtype or s.dtype for s in subjects) if DTYPES[dtype].kind == "float"]
    coarsest = min((exact_bound(dtype) for dtype in floats), default=exact_bound("float32"))
    elements = sum(prod(subject.shape) for subject in subjects)
    return min(elements / exact_bound("float32") + (len(subjects) + world_size + 1) / coarsest, 0.25)


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
