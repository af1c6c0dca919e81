"""Every gradient of every rank is in the reduced shard once."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.views import Reduced, must_match_owned, reductions


def check(item: Reduced) -> Iterator[Violation]:
    """The shard's own elements are the model's, bit for bit."""
    return must_match_owned(LAW, item)


LAW: Law[Reduced] = Law(
    slug="reduced-exactly-once",
    family="reduction",
    sentence="A reduced shard holds every rank's gradient exactly once, element by element.",
    why="A tied parameter whose hook fires twice is reduced twice, a tensor larger than the bucket may never be, and a "
    "boundary that is off by one gives ranks each other's gradients.",
    rows=("N1", "N4", "N5", "N6", "L6"),
    needs=("reduce",),
    over=reductions,
    check=check,
)
