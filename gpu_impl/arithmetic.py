"""Who owns which elements: flat shards of equal length, the last ones padded. Integers only, exact at any numel.

With N the numel of the true shape and W the world size, every rank stores p = ceil(N / W) elements, rounded up to
the alignment. Rank r owns elements r*p up to min(N, (r + 1)*p) of the row-major order; what is left of its shard is
padding. This is the cut of ZeRO stage 3 (Rajbhandari et al. 2020, arXiv:1910.02054) and of DeepSpeed's partitioning.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch


def ceil_div(a: int, b: int) -> int:
    """`a / b` rounded up, for b > 0."""
    return -(-a // b)


def shard_numel(numel: int, world_size: int, alignment: int = 1) -> int:
    """Elements that every rank stores, padding included."""
    return ceil_div(ceil_div(numel, world_size), alignment) * alignment


def owned_range(numel: int, rank: int, world_size: int, alignment: int = 1) -> tuple[int, int]:
    """First and one past the last element that `rank` owns; equal where it stores padding only."""
    length = shard_numel(numel, world_size, alignment)
    start = min(rank * length, numel)
    return start, min(start + length, numel)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a contiguous tensor of this shape."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def layout(shape: Sequence[int], rank: int, world_size: int, alignment: int = 1) -> dict[str, Any]:
    """How a parameter of this shape is cut for one rank; nothing is allocated.

    Returns `shard_numel` (stored by every rank), `padded_numel` (what a gather buffer holds), `runs` as (local start,
    global start, length, stride, count), and `logical_shape`. Raises ValueError for a rank, world size, alignment or
    shape that cannot be.
    """
    check_place(rank, world_size, alignment)
    check_shape(shape)
    numel = prod(shape)
    length = shard_numel(numel, world_size, alignment)
    start, stop = owned_range(numel, rank, world_size, alignment)
    return {
        "shard_numel": length,
        "padded_numel": world_size * length,
        "runs": [(0, start, stop - start, stop - start, 1)] if stop > start else [],
        "logical_shape": tuple(shape),
    }


def shard(full: torch.Tensor, rank: int, world_size: int, alignment: int = 1) -> torch.Tensor:
    """This rank's shard of `full`: 1-D, contiguous, in memory of its own, padded with zeros.

    `full` may be strided or start inside its storage; elements are taken in row-major order, and no more of them are
    copied than lie in the rows this rank's range touches. Works on the meta device. Raises ValueError as `layout`.
    """
    check_place(rank, world_size, alignment)
    start, stop = owned_range(full.numel(), rank, world_size, alignment)
    with torch.inference_mode(False), torch.no_grad():
        result = full.new_empty(shard_numel(full.numel(), world_size, alignment))
        result[: stop - start].copy_(_elements(full, start, stop))
        result[stop - start :].zero_()
    return result


def check_place(rank: int, world_size: int, alignment: int) -> None:
    """Raise ValueError where there is no such rank, world size or alignment."""
    if world_size < 1:
        raise ValueError(f"world size is {world_size}, expected at least 1")
    if not 0 <= rank < world_size:
        raise ValueError(f"rank is {rank}, expected 0 to {world_size - 1} at world size {world_size}")
    if alignment < 1:
        raise ValueError(f"alignment is {alignment}, expected at least 1")


def check_shape(shape: Sequence[int]) -> None:
    """Raise ValueError where a size is negative."""
    if any(size < 0 for size in shape):
        raise ValueError(f"shape is {tuple(shape)}, expected sizes of at least 0")


def _elements(full: torch.Tensor, start: int, stop: int) -> torch.Tensor:
    """Elements start to stop of the row-major order, 1-D."""
    if full.is_contiguous() or start == stop:
        return full.reshape(-1)[start:stop]
    row = full.numel() // full.shape[0]
    first, last = start // row, ceil_div(stop, row)
    return full[first:last].reshape(-1)[start - first * row : stop - first * row]
