"""What a layout is: for every rank, a short list of runs."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Protocol

from reference.runs import Run

PADDING_MINIMAL = "padding-minimal"
OWNED_EXACTLY_ONCE = "owned-exactly-once"
ORDER_KEPT = "order-kept"
BOUNDARIES_DIVISIBLE = "boundaries-divisible"
EMPTY_SHARD_LEGAL = "empty-shard-legal"
LOGICAL_SIZE_CARRIED = "logical-size-carried"
BUCKETS_DIVISIBLE = "buckets-divisible"
BUCKETS_TILE = "buckets-tile"
# Whatever its rounding, a layout stores no more than that asks for, leaves ranks empty where it says, has a true shape.
OWED_BY_ALL = frozenset({PADDING_MINIMAL, EMPTY_SHARD_LEGAL, LOGICAL_SIZE_CARRIED})


class Layout(Protocol):
    """How one parameter lies on the ranks. What no run of a rank covers in its shard is padding.

    Every question is answered with Python ints, so it has an exact answer whatever the numel, and nothing is
    allocated to answer it.
    """

    @property
    def kind(self) -> str:
        """The layout's name in a case."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The parameter's logical shape."""

    @property
    def numel(self) -> int:
        """Elements of the logical shape: 1 for a scalar, 0 where a dim is 0."""

    @property
    def world_size(self) -> int:
        """Ranks the parameter is spread over."""

    @property
    def padded_numel(self) -> int:
        """Elements of the buffer that a gather with equal counts on every rank needs."""

    @property
    def owes(self) -> frozenset[str]:
        """Slugs of the layout laws that hold for this layout."""

    def shard_numel(self, rank: int) -> int:
        """Elements that the rank stores, padding included."""

    def owned(self, rank: int) -> int:
        """Elements of the parameter among those."""

    def runs(self, rank: int) -> tuple[Run, ...]:
        """Where those lie, by rising local offset. No runs: the rank owns nothing."""


def checked_shape(shape: Iterable[int]) -> tuple[int, ...]:
    """The shape as a tuple of plain ints. Raises ValueError for a negative dim."""
    plain = tuple(operator.index(size) for size in shape)
    if any(size < 0 for size in plain):
        raise ValueError(f"shape: observed {plain}, expected no negative dim")
    return plain


def checked_at_least(what: str, value: int, least: int) -> int:
    """The value as a plain int. Raises ValueError where it is below `least`."""
    plain = operator.index(value)
    if plain < least:
        raise ValueError(f"{what}: observed {plain}, expected at least {least}")
    return plain


def checked_below(what: str, value: int, end: int) -> int:
    """The value as a plain int. Raises ValueError where it is not in [0, end)."""
    plain = operator.index(value)
    if not 0 <= plain < end:
        raise ValueError(f"{what}: observed {plain}, expected 0 <= {what} < {end}")
    return plain
