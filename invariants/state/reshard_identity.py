"""Saving at one world size and loading at another changes no element."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from invariants.evidence import Evidence
from invariants.law import Law, Violation
from invariants.views import Result, after, gathered, loads, must_match, saved

_RESHARDED = after(gathered, "load")


def over(evidence: Evidence) -> Iterator[Result]:
    """What was saved, what a load returned or how it failed, and what is gathered after it."""
    for item in chain(saved(evidence), loads(evidence)):
        if item.failed or (item.bits is not None and item.step.results):
            yield item
    yield from _RESHARDED(evidence)


def check(item: Result) -> Iterator[Violation]:
    """It is the model's, bit for bit."""
    return must_match(LAW, item)


LAW: Law[Result] = Law(
    slug="reshard-identity",
    family="state",
    sentence="From W ranks to W' ranks and back, every element is what it was.",
    why="Where padded and compact index spaces are mixed up, parameters after the first padded one are read from wrong "
    "offsets. A resumed run then starts from values that were never trained.",
    rows=("C2", "C3", "C5", "L4", "G11"),
    needs=("save", "load"),
    over=over,
    check=check,
)
