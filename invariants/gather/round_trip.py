"""What was cut is put together again, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import Evidence
from invariants.law import Law, Violation
from invariants.views import Result, gathered, must_match


def over(evidence: Evidence) -> Iterator[Result]:
    """Every gather and wait of which the model knows the result, and every one that failed."""
    return (item for item in gathered(evidence) if item.bits is not None or item.failed)


def check(item: Result) -> Iterator[Violation]:
    """The operation came back, and its bits are the model's."""
    return must_match(LAW, item)


LAW: Law[Result] = Law(
    slug="round-trip",
    family="gather",
    sentence="A gathered parameter is, bit for bit, what was sharded or written last, on every rank.",
    why="This is what sharding is for. Wrong tails, swapped parts, stale buffers, results handed out before they "
    "arrived and offsets that overflow all end here; NaN payloads and negative zeros have to survive as well.",
    rows=("G1", "G2", "G3", "G4", "G5", "G6", "G7", "G11", "G12", "G13", "G14", "G15", "L6", "R5"),
    needs=("gather",),
    over=over,
    check=check,
)
