"""After the last release the gathered memory is gone."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.views import Freed, breach, freed


def check(item: Freed) -> Iterator[Violation]:
    """Nothing keeps the memory alive."""
    if not item.gone:
        observed = "gathered memory alive after release, with no view of it held"
        yield breach(LAW, item, observed, "freed, kept buffers given back by trim")


LAW: Law[Freed] = Law(
    slug="freed-after-last-release",
    family="life",
    sentence="When a parameter is released, no view is held and kept buffers are given back, its gathered memory is "
    "freed.",
    why="Sharding saves memory only if the whole parameter goes away again. One forgotten view of a padded base keeps "
    "all of it.",
    rows=("G8",),
    needs=("release",),
    over=freed,
    check=check,
)
