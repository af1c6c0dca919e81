"""Shard inside a group of ranks, replicate outside: HSDP, MiCS, and the secondary shards of ZeRO++'s hpZ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from reference import layout as laws
from reference.layout import Layout, checked_at_least, checked_below
from reference.runs import Run


@dataclass(frozen=True, slots=True)
class Grouped:
    """`replicas` groups of consecutive ranks, in each of which the parameter lies as `inner` says.

    Rank r is rank r % G of its group, G being `inner.world_size`, as in a device mesh of (replicate, shard). hpZ's
    secondary shard, of W / G primary shards, is Grouped(FlatPadded(shape, G, W // G), W // G). Raises ValueError for
    fewer than one replica.
    """

    inner: Layout
    replicas: int

    kind: ClassVar[str] = "grouped"

    def __post_init__(self) -> None:
        """Check and keep a plain int."""
        object.__setattr__(self, "replicas", checked_at_least("replicas", self.replicas, 1))

    @property
    def shape(self) -> tuple[int, ...]:
        """The parameter's logical shape."""
        return self.inner.shape

    @property
    def numel(self) -> int:
        """Elements of the logical shape."""
        return self.inner.numel

    @property
    def world_size(self) -> int:
        """All ranks of all groups."""
        return self.inner.world_size * self.replicas

    @property
    def padded_numel(self) -> int:
        """A gather stays inside one group."""
        return self.inner.padded_numel

    @property
    def owes(self) -> frozenset[str]:
        """What the inner layout owes, but for what holds over all ranks only where there is one group."""
        over_all_ranks = {laws.OWNED_EXACTLY_ONCE, laws.ORDER_KEPT, laws.BOUNDARIES_DIVISIBLE}
        return self.inner.owes if self.replicas == 1 else self.inner.owes - over_all_ranks

    def shard_numel(self, rank: int) -> int:
        """Elements that the rank stores, padding included."""
        return self.inner.shard_numel(self._in_group(rank))

    def owned(self, rank: int) -> int:
        """Elements of the parameter among those."""
        return self.inner.owned(self._in_group(rank))

    def runs(self, rank: int) -> tuple[Run, ...]:
        """Those of the rank with the same place in the first group."""
        return self.inner.runs(self._in_group(rank))

    def _in_group(self, rank: int) -> int:
        return checked_below("rank", rank, self.world_size) % self.inner.world_size
