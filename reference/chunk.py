"""The layout of `torch.chunk` along one dim, as FSDP2 and DTensor's `Shard(dim)` use it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from reference import layout as laws
from reference.flat_padded import owned_of, padded_numel_of, run_of, shard_numel_of
from reference.layout import checked_at_least, checked_below, checked_shape
from reference.runs import Run, normal


@dataclass(frozen=True, slots=True)
class Chunk:
    """Dim `dim` cut into chunks of c = ceil(size / W) slices; the last ranks may get fewer, or none.

    Shards are stored without padding, each in row-major order of its own shape, so their numels differ. A gather
    with equal counts pads every chunk to c slices: `padded_numel` is that buffer, W * c slices, as FSDP2's
    all-gather allocates it (torch/distributed/fsdp/_fully_shard/_fsdp_param.py, `padded_sharded_param_size`). Where
    `torch.chunk` returns fewer than W chunks, the missing ones are empty shards here, as in DTensor.

    Raises ValueError for a negative dim size, a world size below 1, or a `dim` that the shape does not have; a
    scalar has none, and `torch.chunk` refuses it as well.
    """

    shape: tuple[int, ...]
    world_size: int
    dim: int = 0

    kind: ClassVar[str] = "chunk"

    def __post_init__(self) -> None:
        """Check and keep plain ints, so that no NumPy integer can overflow in a formula."""
        object.__setattr__(self, "shape", checked_shape(self.shape))
        object.__setattr__(self, "world_size", checked_at_least("world size", self.world_size, 1))
        object.__setattr__(self, "dim", checked_below("dim", self.dim, len(self.shape)))

    @property
    def numel(self) -> int:
        """Elements of the logical shape."""
        return prod(self.shape)

    @property
    def padded_numel(self) -> int:
        """W chunks of c slices each, whatever they hold."""
        return self._outer * padded_numel_of(self._chunk_size, self.world_size) * self._inner

    @property
    def owes(self) -> frozenset[str]:
        """Order is kept only where nothing lies outside the chunked dim; stored shards are of unequal numel."""
        always = laws.OWED_BY_ALL | {laws.OWNED_EXACTLY_ONCE}
        return always | {laws.ORDER_KEPT} if self._outer <= 1 else always

    def shard_shape(self, rank: int) -> tuple[int, ...]:
        """The shape of the rank's chunk."""
        return (*self.shape[: self.dim], self._slices(rank), *self.shape[self.dim + 1 :])

    def shard_numel(self, rank: int) -> int:
        """Elements of the rank's chunk; there is no padding among them."""
        return prod(self.shard_shape(rank))

    def owned(self, rank: int) -> int:
        """The same: all that is stored belongs to the parameter."""
        return self.shard_numel(rank)

    def runs(self, rank: int) -> tuple[Run, ...]:
        """One run, a block for each index into the dims before `dim`; or none."""
        checked_below("rank", rank, self.world_size)
        return normal(run_of(self.shape[self.dim], self._chunk_size, rank, self._inner, self._outer))

    @property
    def _outer(self) -> int:
        return prod(self.shape[: self.dim])

    @property
    def _inner(self) -> int:
        return prod(self.shape[self.dim + 1 :])

    @property
    def _chunk_size(self) -> int:
        return shard_numel_of(self.shape[self.dim], self.world_size)

    def _slices(self, rank: int) -> int:
        return owned_of(self.shape[self.dim], self._chunk_size, checked_below("rank", rank, self.world_size))
