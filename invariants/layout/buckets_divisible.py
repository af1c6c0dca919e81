"""Every bucket can be cut into equal shares."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import Evidence
from invariants.law import Law, Violation
from invariants.views import Claims, placed


def over(evidence: Evidence) -> Iterator[Claims]:
    """Claims that say where the parameter's bucket lies."""
    return (item for item in placed(evidence) if "buckets-divisible" in item.layout.owes)


def check(item: Claims) -> Iterator[Violation]:
    """The bucket starts and ends at multiples of W, and what is gathered or reduced for it is its whole length."""
    world_size = item.layout.world_size
    for rank, claim in item.ranked:
        if claim.place is None:
            continue
        low, high = claim.place.low, claim.place.high
        if low % world_size or high % world_size:
            yield item.breach(LAW, rank, f"a bucket from {low} to {high}", f"multiples of the world size {world_size}")
        if claim.padded_numel != high - low:
            observed = f"padded numel {claim.padded_numel} for a bucket from {low} to {high}"
            yield item.breach(LAW, rank, observed, f"{high - low}, the bucket's length")


LAW: Law[Claims] = Law(
    slug="buckets-divisible",
    family="layout",
    sentence="Every bucket, not only the last one, starts and ends at a multiple of the world size.",
    why="A reduce-scatter gives each rank an equal share of one bucket. Where only the whole buffer is padded, or to a "
    "fixed number of elements, some world sizes split a bucket unevenly, and others never show it.",
    rows=("L3", "L4"),
    needs=("layout",),
    over=over,
    check=check,
)
