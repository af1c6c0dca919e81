"""What ranks do with a sharded parameter, written once over runs: no line here knows which layout it works on.

Values may be of any NumPy dtype, raw bit patterns and void included, unless an operation computes with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from reference.layout import Layout
from reference.runs import Run

Array = npt.NDArray[Any]


def partition(full: Array, layout: Layout, fill: int | float = 0) -> list[Array]:
    """Cut a parameter into what each rank stores: one new 1-D array of shard_numel(rank) elements a rank.

    `full` has the layout's shape, or is that flattened. Padding holds `fill`. Raises ValueError for another shape.
    """
    flat = _flat(full, layout, "parameter")
    shards = []
    for rank in range(layout.world_size):
        shard = np.full(layout.shard_numel(rank), fill, flat.dtype)
        for run in layout.runs(rank):
            _in_shard(shard, run)[...] = _in_parameter(flat, run)
        shards.append(shard)
    return shards


def gather(shards: Sequence[Array], layout: Layout) -> Array:
    """Put the parameter together from all ranks' shards: a new array of the layout's shape. Padding is not read.

    Where several ranks store an element, the first of them is taken. Raises ValueError for a wrong number of shards,
    a shard that is not 1-D of shard_numel(rank) elements, or shards of different dtypes.
    """
    dtype = _checked_shards(shards, layout)
    flat = np.zeros(layout.numel, dtype)
    for rank in reversed(range(layout.world_size)):
        for run in layout.runs(rank):
            _in_parameter(flat, run)[...] = _in_shard(shards[rank], run)
    return flat.reshape(layout.shape)


def reduce_scatter(fulls: Sequence[Array], layout: Layout, reduction: Literal["sum", "mean"]) -> list[Array]:
    """Each rank's shard of the sum or mean over ranks of full-size integer or float arrays. Padding is zero.

    One array a rank, summed in rank order and in their own dtype, which the shards keep. Raises ValueError for a
    wrong number of arrays, a wrong shape, different or non-numeric dtypes, an unknown reduction, and for a mean of
    integers that is not an integer.
    """
    _same_count(fulls, layout, "contributions")
    flats = [_flat(full, layout, f"contribution of rank {rank}") for rank, full in enumerate(fulls)]
    dtype = _one_dtype(flats, "contributions")
    if dtype.kind not in "iufc":
        raise ValueError(f"dtype to reduce: observed {dtype}, expected integers or floats")
    total = flats[0].copy()
    for flat in flats[1:]:
        total += flat
    return partition(_reduced(total, layout.world_size, reduction), layout)


def norm_squared(shards: Sequence[Array], layout: Layout) -> int | float:
    """The sum of squared magnitudes of the parameter's elements, each counted once, padding never.

    Exact for integers (any size). For floats the squares are summed without further rounding, so that the result
    does not depend on the layout; a sum past float64's range raises OverflowError. Raises ValueError as `gather` does,
    and for values that are not numbers.
    """
    flat = gather(shards, layout).reshape(-1)
    if flat.dtype.kind in "iu":
        return sum(int(value) ** 2 for value in flat.tolist())
    if flat.dtype.kind not in "fc":
        raise ValueError(f"dtype of a norm: observed {flat.dtype}, expected integers or floats")
    parts = np.stack([flat.real, flat.imag]) if flat.dtype.kind == "c" else flat
    squares = np.square(parts.astype(np.float64))
    return fsum(squares.reshape(-1).tolist())


def reshard(shards: Sequence[Array], old: Layout, new: Layout) -> list[Array]:
    """The shards that `new` stores of the parameter that `old` stored; fresh padding is zero.

    Any two layouts of one shape, at any world sizes. Raises ValueError where the shapes differ.
    """
    if old.shape != new.shape:
        raise ValueError(f"shape to reshard to: observed {new.shape}, expected {old.shape}")
    return partition(gather(shards, old), new)


def _in_shard(shard: Array, run: Run) -> Array:
    """The run's elements as a (count, length) view of the shard."""
    return shard[run.local : run.local + run.numel].reshape(run.count, run.length)


def _in_parameter(flat: Array, run: Run) -> Array:
    """The run's elements as a (count, length) view of the contiguous flat parameter.

    The ndarray constructor, unlike as_strided, refuses a run that leaves the buffer.
    """
    width = flat.itemsize
    return np.ndarray((run.count, run.length), flat.dtype, flat, run.start * width, (run.stride * width, width))


def _flat(full: Array, layout: Layout, what: str) -> Array:
    """The array in row-major order, contiguous and 1-D."""
    if full.shape not in (layout.shape, (layout.numel,)):
        raise ValueError(f"shape of the {what}: observed {full.shape}, expected {layout.shape} or ({layout.numel},)")
    return np.ascontiguousarray(full).reshape(-1)


def _same_count(arrays: Sequence[Array], layout: Layout, what: str) -> None:
    if len(arrays) != layout.world_size:
        raise ValueError(f"number of {what}: observed {len(arrays)}, expected {layout.world_size}, one a rank")


def _one_dtype(arrays: Sequence[Array], what: str) -> np.dtype[Any]:
    first = arrays[0].dtype
    for rank, array in enumerate(arrays):
        if array.dtype != first:
            raise ValueError(
                f"dtype of the {what}: observed {array.dtype} on rank {rank}, expected {first} as on rank 0"
            )
    return first


def _checked_shards(shards: Sequence[Array], layout: Layout) -> np.dtype[Any]:
    """The shards' one dtype."""
    _same_count(shards, layout, "shards")
    for rank, shard in enumerate(shards):
        if shard.shape != (layout.shard_numel(rank),):
            raise ValueError(
                f"shard of rank {rank}: observed shape {shard.shape}, expected ({layout.shard_numel(rank)},)"
            )
    return _one_dtype(shards, "shards")


def _reduced(total: Array, world_size: int, reduction: str) -> Array:
    if reduction == "sum":
        return total
    if reduction != "mean":
        raise ValueError(f"reduction: observed {reduction!r}, expected 'sum' or 'mean'")
    if total.dtype.kind in "iu":
        if np.any(total % world_size):
            raise ValueError(
                f"mean of integers: observed a sum that {world_size} does not divide, expected an exact mean"
            )
        return total // world_size
    return total / world_size
