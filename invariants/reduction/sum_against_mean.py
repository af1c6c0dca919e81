"""A sum is a sum and a mean is a mean."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from invariants.bits import owned_mask
from invariants.evidence import Evidence
from invariants.law import Law, Violation
from invariants.views import Reduced, breach, reductions
from reference import DTYPES, decode


def over(evidence: Evidence) -> Iterator[Reduced]:
    """Reduced shards with elements of their own, in worlds where sum and mean differ."""
    for item in reductions(evidence):
        whole = item.seen is not None and item.bits is not None and len(item.seen.bits) == len(item.bits)
        if whole and item.layout.world_size > 1 and item.layout.owned(item.step.rank):
            yield item


def check(item: Reduced) -> Iterator[Violation]:
    """The elements are not the expected ones times, or divided by, the world size."""
    if item.seen is None or item.bits is None or item.seen.bits == item.bits:
        return
    mask, world_size = owned_mask(item.layout, item.step.rank), item.layout.world_size
    words = DTYPES[item.dtype].bits
    observed, expected = (decode(np.frombuffer(bits, words), item.dtype)[mask] for bits in (item.seen.bits, item.bits))
    if not np.any(expected):
        return
    if np.array_equal(observed, expected * world_size):
        yield breach(LAW, item, f"{world_size} times each element: the sum", "the mean")
    elif np.array_equal(observed * world_size, expected):
        yield breach(LAW, item, f"each element divided by {world_size}: the mean", "the sum")


LAW: Law[Reduced] = Law(
    slug="sum-against-mean",
    family="reduction",
    sentence="Where a sum is asked for, the sum comes back, and where a mean is asked for, the mean.",
    why="The two differ by a factor, which a learning rate hides until the world size changes. Inputs that are equal "
    "on every rank hide it altogether.",
    rows=(),
    needs=("reduce",),
    over=over,
    check=check,
)
