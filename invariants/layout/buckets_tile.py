"""The buckets of a buffer follow one another without overlap or hole, and so do the parameters in them."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from invariants.law import Law, Violation
from invariants.views import Placed, buffers


def check(item: Placed) -> Iterator[Violation]:
    """Each bucket starts where the one before it ended; each parameter lies in its bucket, behind the one before."""
    end = 0
    for low, high, holds in item.buckets:
        if low != end:
            how = "overlaps the one before it" if low < end else "leaves a hole before it"
            yield item.breach(LAW, holds, f"a bucket from {low} {how}", f"a start at {end}")
        if high < low:
            yield item.breach(LAW, holds, f"a bucket from {low} to {high}", "an end at or behind its start")
        end = max(end, high)
    reached = 0
    for subject, place in item.parameters:
        stop = place.start + prod(subject.shape)
        if place.start < reached:
            observed = f"it starts at {place.start}, the one before it ends at {reached}"
            yield item.breach(LAW, subject, observed, "parameters one behind the other")
        if not place.low <= place.start <= stop <= place.high:
            observed = f"it lies from {place.start} to {stop}"
            yield item.breach(LAW, subject, observed, f"inside its bucket, from {place.low} to {place.high}")
        reached = max(reached, stop)


LAW: Law[Placed] = Law(
    slug="buckets-tile",
    family="layout",
    sentence="Buckets tile their buffer: each starts where the one before it ends, padding included, and every "
    "parameter lies inside its own.",
    why="Where the padded end of a bucket is not carried into the next one's start, two buckets share elements, and "
    "the gradients of one are reduced into the other. A hole is memory that no rank owns.",
    rows=("L2",),
    needs=("layout",),
    over=buffers,
    check=check,
)
