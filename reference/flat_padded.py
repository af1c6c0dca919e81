"""The flat padded layout of ZeRO-3, FSDP1 and ColossalAI: flatten, pad to equal shards, cut."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar, overload

from reference import layout as laws
from reference.arithmetic import Term, align_up, ceil_div, clamp
from reference.layout import checked_at_least, checked_below, checked_shape
from reference.runs import Run, normal


@overload
def shard_numel_of(numel: int, world_size: int, alignment: int = 1) -> int: ...
@overload
def shard_numel_of(numel: Term, world_size: Term, alignment: Term = 1) -> Term: ...
def shard_numel_of(numel: Term, world_size: Term, alignment: Term = 1) -> Term:
    """Elements that each rank stores: p = ceil(N / W), rounded up to a multiple of the alignment."""
    return align_up(ceil_div(numel, world_size), alignment)


@overload
def owned_of(numel: int, shard_numel: int, rank: int) -> int: ...
@overload
def owned_of(numel: Term, shard_numel: Term, rank: Term) -> Term: ...
def owned_of(numel: Term, shard_numel: Term, rank: Term) -> Term:
    """Elements of the parameter on a rank whose shard starts at rank * p: clamp(N - rank * p, 0, p)."""
    return clamp(numel - rank * shard_numel, 0, shard_numel)


@overload
def padded_numel_of(shard_numel: int, world_size: int) -> int: ...
@overload
def padded_numel_of(shard_numel: Term, world_size: Term) -> Term: ...
def padded_numel_of(shard_numel: Term, world_size: Term) -> Term:
    """Elements of a gather buffer: W * p, the shards end to end."""
    return world_size * shard_numel


def run_of(size: Term, chunk_size: Term, rank: Term, inner: Term = 1, outer: Term = 1) -> Run:
    """What a rank owns of (outer, size, inner) elements cut along the middle dim, `chunk_size` slices a rank.

    Not in normal form: its length is 0 on a rank past the end.
    """
    return Run(0, rank * chunk_size * inner, owned_of(size, chunk_size, rank) * inner, size * inner, outer)


@dataclass(frozen=True, slots=True)
class FlatPadded:
    """The parameter in row-major order, padded at its end to `world_size` equal shards.

    A shard's numel is a multiple of `alignment`. Raises ValueError for a negative dim, a world size or an alignment
    below 1. Sharding rule of deepspeed/runtime/zero/partition_parameters.py and of FSDP1's FlatParameter.
    """

    shape: tuple[int, ...]
    world_size: int
    alignment: int = 1

    kind: ClassVar[str] = "flat_padded"
    owes: ClassVar[frozenset[str]] = laws.OWED_BY_ALL | {
        laws.OWNED_EXACTLY_ONCE,
        laws.ORDER_KEPT,
        laws.BOUNDARIES_DIVISIBLE,
    }

    def __post_init__(self) -> None:
        """Check and keep plain ints, so that no NumPy integer can overflow in a formula."""
        object.__setattr__(self, "shape", checked_shape(self.shape))
        object.__setattr__(self, "world_size", checked_at_least("world size", self.world_size, 1))
        object.__setattr__(self, "alignment", checked_at_least("alignment", self.alignment, 1))

    @property
    def numel(self) -> int:
        """Elements of the logical shape."""
        return prod(self.shape)

    @property
    def padded_numel(self) -> int:
        """W * p: the shards end to end."""
        return padded_numel_of(shard_numel_of(self.numel, self.world_size, self.alignment), self.world_size)

    def shard_numel(self, rank: int) -> int:
        """The same on every rank: p."""
        checked_below("rank", rank, self.world_size)
        return shard_numel_of(self.numel, self.world_size, self.alignment)

    def owned(self, rank: int) -> int:
        """Elements of the parameter on this rank; 0 where its shard starts at or past the end."""
        return owned_of(self.numel, self.shard_numel(rank), rank)

    def runs(self, rank: int) -> tuple[Run, ...]:
        """One block, or none."""
        return normal(run_of(self.numel, self.shard_numel(rank), rank))
