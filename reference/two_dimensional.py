"""Tensor parallel times data parallel: a shard of `torch.chunk` is cut once more."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from reference import layout as laws
from reference.chunk import Chunk
from reference.compose import composed
from reference.flat_padded import FlatPadded
from reference.layout import Layout, checked_at_least, checked_below, checked_shape
from reference.runs import Run


@dataclass(frozen=True, slots=True)
class TwoDimensional:
    """A parameter on a device mesh of (data, tensor) ranks; rank r is data rank r // T and tensor rank r % T.

    The tensor ranks chunk dim `dim`; each chunk is then cut over the data ranks: flat padded with `alignment` where
    `data_dim` is None (ZeRO under tensor parallelism), else chunked along `data_dim` (FSDP2; with both dims equal that
    is DTensor's `_StridedShard`). A gather pads every chunk to what tensor rank 0's needs. Raises ValueError as the two
    layouts do, and for a mesh with a size below 1.
    """

    shape: tuple[int, ...]
    mesh: tuple[int, int]
    dim: int = 0
    data_dim: int | None = None
    alignment: int = 1

    kind: ClassVar[str] = "two_dimensional"
    owes: ClassVar[frozenset[str]] = laws.OWED_BY_ALL | {laws.OWNED_EXACTLY_ONCE}

    def __post_init__(self) -> None:
        """Check, and keep plain ints."""
        data, tensor = self.mesh
        object.__setattr__(self, "shape", checked_shape(self.shape))
        object.__setattr__(
            self, "mesh", (checked_at_least("data ranks", data, 1), checked_at_least("tensor ranks", tensor, 1))
        )
        self._chunk(0)

    @property
    def numel(self) -> int:
        """Elements of the logical shape."""
        return prod(self.shape)

    @property
    def world_size(self) -> int:
        """All ranks of the mesh."""
        return prod(self.mesh)

    @property
    def padded_numel(self) -> int:
        """T times what a gather of tensor rank 0's chunk, the largest, needs."""
        return self.mesh[1] * self._chunk(0).padded_numel

    def shard_numel(self, rank: int) -> int:
        """Elements that the rank stores, padding included."""
        data, tensor = self._place(rank)
        return self._chunk(tensor).shard_numel(data)

    def owned(self, rank: int) -> int:
        """Elements of the parameter among those."""
        data, tensor = self._place(rank)
        return self._chunk(tensor).owned(data)

    def runs(self, rank: int) -> tuple[Run, ...]:
        """One index map after the other."""
        data, tensor = self._place(rank)
        return composed(self._tensor.runs(tensor), self._chunk(tensor).runs(data))

    @property
    def _tensor(self) -> Chunk:
        return Chunk(self.shape, self.mesh[1], self.dim)

    def _chunk(self, tensor: int) -> Layout:
        """How a tensor rank's chunk lies on the data ranks."""
        shape = self._tensor.shard_shape(tensor)
        if self.data_dim is None:
            return FlatPadded(shape, self.mesh[0], self.alignment)
        return Chunk(shape, self.mesh[0], self.data_dim)

    def _place(self, rank: int) -> tuple[int, int]:
        return divmod(checked_below("rank", rank, self.world_size), self.mesh[1])
