"""Profile records are all of one form."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.views import Profiled, breach, profiled

KEYS = ("alloc_mem", "max_mem", "device_time", "wall_time")


def check(item: Profiled) -> Iterator[Violation]:
    """The record has every key."""
    missing = [key for key in KEYS if key not in item.record]
    if missing:
        observed = f"a record with {', '.join(item.record) or 'no keys'}"
        yield breach(LAW, item, observed, f"{', '.join(missing)} as well")


LAW: Law[Profiled] = Law(
    slug="profile-complete",
    family="state",
    sentence="Every profile record carries every key: alloc_mem, max_mem, device_time and wall_time.",
    why="A producer that writes one key by another name breaks the reader long after the run that was measured.",
    rows=("C7",),
    needs=(),
    over=profiled,
    check=check,
)
