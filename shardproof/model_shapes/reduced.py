"""Small shapes that are cut as large ones are, so that data can be moved where the true size is out of reach."""

from __future__ import annotations

from collections.abc import Iterator

from reference import FlatPadded
from shardproof.case import LayoutSpec
from shardproof.layouts import layout_of, least_dims

# Slices that a chunk, or aligned blocks that a shard, keeps where it has as many: one alone would hide wrong strides.
_KEPT = 2
_KEPT_DIM = 3


def reduced(shape: tuple[int, ...], world_size: int, layout: LayoutSpec) -> tuple[int, ...]:
    """A small shape of as many dims whose remainders equal those of `shape`, with the same ranks owning nothing.

    The numel modulo the ranks that share it times the alignment; where a dim is chunked, that dim modulo the ranks that
    chunk it. A dim of 1 stays 1 and a larger one stays larger. Raises UsageError for a layout that has no model.
    """
    if not shape:
        return ()
    numel = layout_of(layout, shape, world_size).numel
    small = tuple(min(size, _KEPT_DIM) for size in shape)
    if least_dims(layout):
        ranks = layout.mesh[1] if layout.mesh else layout.group_size or world_size
        return (*small[: layout.dim], next(_lengths(shape[layout.dim], ranks, 1)), *small[layout.dim + 1 :])
    if numel == 0:
        return small
    candidates = _lengths(numel, layout.group_size or world_size, layout.alignment)
    return next(found for numel in candidates if (found := _shaped(numel, shape)) is not None)


def _lengths(length: int, world_size: int, alignment: int) -> Iterator[int]:
    """Lengths of the same remainder that leave as many ranks without any, rising, `length` itself the last."""
    block = world_size * alignment
    idle = _idle(length, world_size, alignment)
    for blocks in range(min(length // block, _KEPT), length // block + 1):
        candidate = length % block + blocks * block
        if _idle(candidate, world_size, alignment) == idle:
            yield candidate


def _idle(length: int, world_size: int, alignment: int) -> int:
    """How many ranks own nothing of a length that is cut into equal parts; they are always the last ones."""
    cut = FlatPadded((length,), world_size, alignment)
    return sum(cut.owned(rank) == 0 for rank in range(world_size))


def _shaped(numel: int, like: tuple[int, ...]) -> tuple[int, ...] | None:
    """A shape of that numel with a dim of 2 or more wherever `like` has one, large where that is; None if none is."""
    free = sorted((size, at) for at, size in enumerate(like) if size > 1)
    factors = _factors(numel, len(free))
    if factors is None:
        return None
    shape = [1] * len(like)
    for (_, at), factor in zip(free, sorted(factors), strict=True):
        shape[at] = factor
    return tuple(shape)


def _factors(number: int, count: int) -> tuple[int, ...] | None:
    """`count` factors of at least 2, about equal, whose product is the number; None where there are none."""
    if count == 0:
        return () if number == 1 else None
    if count == 1:
        return (number,) if number > 1 else None
    for factor in range(round(number ** (1 / count)), 1, -1):
        rest = _factors(number // factor, count - 1) if number % factor == 0 else None
        if rest is not None:
            return (factor, *rest)
    return None
