"""Formulas with one mistake each, and harmless ones that a solver must not judge."""

from __future__ import annotations

import math
from typing import Any

import reference
from reference import Run, clamp

Term = Any


def floor_shard_numel(numel: Term, world_size: Term, alignment: Term = 1) -> Term:
    return reference.floor_div(reference.floor_div(numel, world_size), alignment) * alignment


def long_shard_numel(numel: Term, world_size: Term, alignment: Term = 1) -> Term:
    return (reference.floor_div(numel, world_size) + 1) * alignment


def unaligned_shard_numel(numel: Term, world_size: Term, alignment: Term = 1) -> Term:
    return reference.ceil_div(numel, world_size) + alignment - 1


def float_shard_numel(numel: Any, world_size: Any, alignment: Any = 1) -> Any:
    return reference.align_up(math.ceil(numel / world_size), alignment)


def unclamped_owned(numel: Term, shard_numel: Term, rank: Term) -> Term:
    return numel - rank * shard_numel


def owned_below_only(numel: Term, shard_numel: Term, rank: Term) -> Term:
    return reference.min_(numel - rank * shard_numel, shard_numel)


def owned_of_full_ranks(numel: Term, shard_numel: Term, rank: Term) -> Term:
    return (numel >= (rank + 1) * shard_numel) * shard_numel


def padded_by_numel(shard_numel: Term, world_size: Term) -> Term:
    return world_size * shard_numel - 1


def run_one_short(size: Term, chunk_size: Term, rank: Term, inner: Term = 1, outer: Term = 1) -> Run:
    right = reference.run_of(size, chunk_size, rank, inner, outer)
    return Run(0, right.start, right.length - (rank > 0), right.stride, right.count)


def run_with_wrong_stride(size: Term, chunk_size: Term, rank: Term, inner: Term = 1, outer: Term = 1) -> Run:
    right = reference.run_of(size, chunk_size, rank, inner, outer)
    return Run(0, right.start, right.length, right.length, right.count)


def run_overlapping(size: Term, chunk_size: Term, rank: Term, inner: Term = 1, outer: Term = 1) -> Run:
    right = reference.run_of(size, chunk_size, rank, inner, outer)
    return Run(0, right.start - (rank > 0), right.length, right.stride, right.count)


def run_of_reversed_ranks(size: Term, chunk_size: Term, rank: Term, inner: Term = 1, outer: Term = 1) -> Run:
    start = (rank > 0) * (size - rank * chunk_size)
    return Run(0, start, reference.owned_of(size, chunk_size, rank), size * inner, outer)


def run_starting_late(size: Term, chunk_size: Term, rank: Term, inner: Term = 1, outer: Term = 1) -> Run:
    right = reference.run_of(size, chunk_size, rank, inner, outer)
    return Run(1, right.start, right.length, right.stride, right.count)


def align_down(x: Term, alignment: Term) -> Term:
    return reference.floor_div(x, alignment) * alignment


def aligned_to_64(x: Term, alignment: Term) -> Term:
    return reference.align_up(x, 64 + 0 * alignment)


def share_with_open_end(low: Term, high: Term, start: Term, numel: Term, world_size: Term, rank: Term) -> Run:
    right = reference.share_of(low, high, start, numel, world_size, rank)
    return Run(right.local, right.start, numel - right.start, numel - right.start, 1)


def share_from_buffer_start(low: Term, high: Term, start: Term, numel: Term, world_size: Term, rank: Term) -> Run:
    right = reference.share_of(low, high, start, numel, world_size, rank)
    return Run(right.local - reference.floor_div(low, world_size), right.start, right.length, right.stride, 1)


def floor_for_ceiling(a: Term, b: Term) -> Term:
    return reference.floor_div(a, b)


def ceiling_for_floor(a: Term, b: Term) -> Term:
    return reference.ceil_div(a, b)


def larger(a: Term, b: Term) -> Term:
    return a + (a < b) * (b - a)


def clamped_below_only(x: Term, low: Term, high: Term) -> Term:
    return low + (x > low) * (x - low)


def clamped_to_the_wrong_side(x: Term, low: Term, high: Term) -> Term:
    return clamp(low + high - x, low, high)


def branching_ceil_div(a: Any, b: Any) -> Any:
    """Right, but a term is never equal to another one when Python asks."""
    return a if b == 1 else reference.ceil_div(a, b)


def wrong_branching_ceil_div(a: Any, b: Any) -> Any:
    """Wrong where the divisor is 3, which a term is never asked about."""
    return a if b == 3 else reference.ceil_div(a, b)


def python_max_owned(numel: Any, shard_numel: Any, rank: Any) -> Any:
    """Right, but in words that terms do not know."""
    return max(0, min(numel - rank * shard_numel, shard_numel))


def ceil_div_wrong_for_terms(a: Any, b: Any) -> Any:
    """Right for ints; its term is one too large at one place that nobody compares."""
    right = reference.ceil_div(a, b)
    return right if isinstance(a, int) else right + (a == 987_654_321) * 1
