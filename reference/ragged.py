"""Ragged layouts: consecutive pieces of any lengths, as in veScale and wherever all-gather-v moves them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod
from typing import ClassVar

from reference import layout as laws
from reference.arithmetic import ceil_div, min_
from reference.layout import checked_at_least, checked_below, checked_shape
from reference.runs import Run, block


def whole_units(numel: int, world_size: int, units: Sequence[int]) -> tuple[int, ...]:
    """Lengths of the ranks' pieces when units of these lengths are never split.

    The units repeat in this order until the parameter ends; the last one may be cut short by that end. A unit belongs
    to the rank in whose even share, ceil(N / W) elements each, it starts. Raises ValueError for a negative numel, a
    world size below 1, no units, or a unit below 1.
    """
    numel, world_size = checked_at_least("numel", numel, 0), checked_at_least("world size", world_size, 1)
    if not units:
        raise ValueError("units: observed none, expected at least one")
    starts = list(accumulate((checked_at_least("unit", unit, 1) for unit in units), initial=0))
    share = ceil_div(numel, world_size)
    edges = (min_(_next_start(rank * share, starts), numel) for rank in range(world_size + 1))
    return tuple(end - start for start, end in pairwise(edges))


def _next_start(position: int, starts: Sequence[int]) -> int:
    """The first start of a unit at or after `position`; `starts` are those of one round and of the next one."""
    rounds, within = divmod(position, starts[-1])
    return rounds * starts[-1] + starts[bisect_left(starts, within)]


@dataclass(frozen=True, slots=True)
class Ragged:
    """Rank r stores the next `lengths[r]` elements of the row-major order, without padding.

    A gather with equal counts pads every piece to the longest one. A piece may be empty anywhere, not only past the
    end. Raises ValueError for a negative dim, for no or negative lengths, and where they do not add up to the numel.
    """

    shape: tuple[int, ...]
    lengths: tuple[int, ...]

    kind: ClassVar[str] = "ragged"
    owes: ClassVar[frozenset[str]] = laws.OWED_BY_ALL | {laws.OWNED_EXACTLY_ONCE, laws.ORDER_KEPT}

    def __post_init__(self) -> None:
        """Check and keep plain ints."""
        object.__setattr__(self, "shape", checked_shape(self.shape))
        object.__setattr__(self, "lengths", _checked_lengths(self.lengths, self.numel))

    @property
    def numel(self) -> int:
        """Elements of the logical shape."""
        return prod(self.shape)

    @property
    def world_size(self) -> int:
        """One length a rank."""
        return len(self.lengths)

    @property
    def padded_numel(self) -> int:
        """W times the longest piece."""
        return self.world_size * max(self.lengths)

    def shard_numel(self, rank: int) -> int:
        """The rank's length."""
        return self.lengths[checked_below("rank", rank, self.world_size)]

    def owned(self, rank: int) -> int:
        """The same: all that is stored belongs to the parameter."""
        return self.shard_numel(rank)

    def runs(self, rank: int) -> tuple[Run, ...]:
        """One block, or none."""
        return block(0, sum(self.lengths[:rank]), self.shard_numel(rank))


def _checked_lengths(lengths: Iterable[int], numel: int) -> tuple[int, ...]:
    plain = tuple(checked_at_least("length", length, 0) for length in lengths)
    if not plain or sum(plain) != numel:
        raise ValueError(f"lengths: observed {plain}, expected one a rank, {numel} in all")
    return plain
