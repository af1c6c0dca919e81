"""Several laws look at the same part of the evidence: it is picked once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TypeVar

from invariants.evidence import Evidence

Found = TypeVar("Found")
Item = TypeVar("Item")


def once(find: Callable[[Evidence], Found]) -> Callable[[Evidence], Found]:
    """The same function, which keeps its answer for the evidence it was asked about last."""
    last: tuple[Evidence, Found] | None = None

    @wraps(find)
    def found(evidence: Evidence) -> Found:
        nonlocal last
        # One assignment sets both, so that two threads never mix evidence and answer.
        kept = last
        if kept is None or kept[0] is not evidence:
            kept = last = (evidence, find(evidence))
        return kept[1]

    return found


def picker(pick: Callable[[Evidence], Iterable[Item]]) -> Callable[[Evidence], tuple[Item, ...]]:
    """A generator of items as a function that returns all of them, kept as `once` does."""

    @once
    @wraps(pick)
    def picked(evidence: Evidence) -> tuple[Item, ...]:
        return tuple(pick(evidence))

    return picked
