"""Faults in the arithmetic of shards (rows L1 to L8, G15)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from shardproof.fault_models.base import Correct, Entry


class NegativeOwned(Correct):
    """L1: a start beyond the parameter is not clamped, so that a rank owns fewer than no elements."""

    @classmethod
    def owned(cls, numel: int, rank: int, world_size: int, alignment: int = 1) -> int:
        """Clamped above only."""
        stored = cls.shard_numel(numel, world_size, alignment)
        return min(stored, numel - rank * stored)


class FloatCeil(Correct):
    """L5: the ceiling is computed in floating point, which is wrong from 2^53 on."""

    @classmethod
    def shard_numel(cls, numel: int, world_size: int, alignment: int = 1) -> int:
        """Through a float."""
        return math.ceil(numel / (world_size * alignment)) * alignment


class FloorShards(Correct):
    """L6: shards are N // W long; the tail goes nowhere."""

    @classmethod
    def shard_numel(cls, numel: int, world_size: int, alignment: int = 1) -> int:
        """Rounded down."""
        return numel // (world_size * alignment) * alignment


class FloorGradients(Correct):
    """L6: gradients are cut by N // W though shards are not."""

    class Session(Correct.Session):
        """Only the reduction is wrong."""

        def cut(self, entry: Entry, padded: torch.Tensor) -> torch.Tensor:
            """Rank r gets what starts at r * (N // W)."""
            step = entry.numel // self.world_size
            shard = padded.new_zeros(self.stored(entry.numel))
            shard[:step] = padded[self.rank * step : (self.rank + 1) * step]
            return shard


class EmptyRefused(Correct):
    """L7: a rank that holds only padding is taken for corrupt, and registration is refused."""

    class Session(Correct.Session):
        """Every rank hears of it."""

        def entry(self, spec: Any) -> Entry:
            """Refuse a shard without elements of the parameter."""
            entry = super().entry(spec)
            if not self.owned(entry):
                raise ValueError(f"{spec.id} has no elements on this rank")
            return entry


class EmptyRaisesAlone(EmptyRefused):
    """L7: the same on the empty rank alone, while its peers wait for it."""

    class Session(EmptyRefused.Session):
        """Nobody is told."""

        def register(self, specs: Sequence[Any]) -> None:
            """Raise before the exchange."""
            self.take(specs)
            super().register(specs)


class EmptyShardElsewhere(Correct):
    """L7: a rank past the end gets no shard at all, so that lengths differ between ranks."""

    @classmethod
    def shard(cls, full: torch.Tensor, rank: int, world_size: int, *, alignment: int = 1) -> torch.Tensor:
        """An empty tensor instead of padding."""
        shard = super().shard(full, rank, world_size, alignment=alignment)
        return shard if cls.owned(full.numel(), rank, world_size, alignment) else shard[:0]


class WorldSizeTwice(Correct):
    """L8: the leading dimension is global already, and multiplied by the world size once more."""

    @classmethod
    def layout(cls, shape: Sequence[int], rank: int, world_size: int, *, alignment: int = 1) -> dict[str, Any]:
        """Say that the logical shape is larger than it is."""
        claim = super().layout(shape, rank, world_size, alignment=alignment)
        return claim | {"logical_shape": (*(n * world_size for n in shape[:1]), *shape[1:])}


class SizeInferred(Correct):
    """L8: the logical size is not carried but inferred from the shards, padding included."""

    class Session(Correct.Session):
        """Right where nothing is padded."""

        def view(self, entry: Entry) -> torch.Tensor:
            """As many leading elements as fill the buffer."""
            assert entry.buffer is not None  # a complete gather has one
            row = math.prod(entry.shape[1:])
            if not entry.shape or not row:
                return super().view(entry)
            rows = entry.buffer.numel() // row
            return entry.buffer[: rows * row].view(rows, *entry.shape[1:])


class Offset32(Correct):
    """G15: offsets are kept in 32 bits, unsigned."""

    @classmethod
    def layout(cls, shape: Sequence[int], rank: int, world_size: int, *, alignment: int = 1) -> dict[str, Any]:
        """Starts wrap around."""
        claim = super().layout(shape, rank, world_size, alignment=alignment)
        return claim | {"runs": [(local, start % 2**32, *rest) for local, start, *rest in claim["runs"]]}


class Count32(Correct):
    """G15: counts are kept in 32 bits, signed."""

    @classmethod
    def layout(cls, shape: Sequence[int], rank: int, world_size: int, *, alignment: int = 1) -> dict[str, Any]:
        """Lengths past 2^31 turn negative."""
        claim = super().layout(shape, rank, world_size, alignment=alignment)
        names = ("shard_numel", "padded_numel")
        return claim | {name: (claim[name] + 2**31) % 2**32 - 2**31 for name in names}
