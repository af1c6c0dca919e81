"""The model against a second statement of it: slow, one element at a time, and obviously right.

That statement lists for every rank what lies in its shard, element by element, with no formula: elements are dealt in
the order in which they come.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import PADDING, Chunk, FlatPadded, Layout, partition, reshard

Shards = list[list[int]]
Check = Callable[[Layout, Shards], None]

SHAPES = [
    (),
    (1,),
    (0,),
    (1, 0, 2),
    (3, 0),
    (7,),
    (2, 2),
    (5, 3),
    (1, 8),
    (3, 4, 5),
    (1, 1, 9),
    (2, 3, 1, 4),
]


def least(start: int, step: int, world_size: int, needed: int) -> int:
    """The first of start, start + step, ... of which `world_size` pieces hold what is needed."""
    return next(size for size in itertools.count(start, step) if world_size * size >= needed)


def flat_padded(numel: int, world_size: int, alignment: int) -> Shards:
    """Deal the elements in order; the rest of the last shards is padding."""
    size = least(0, alignment, world_size, numel)
    waiting = iter(range(numel))
    return [[next(waiting, PADDING) for _ in range(size)] for _ in range(world_size)]


def chunk(shape: Sequence[int], world_size: int, dim: int) -> Shards:
    """Walk the parameter in row-major order and give each element to the rank that has its slice of `dim`."""
    size = least(0, 1, world_size, shape[dim])
    shards: Shards = [[] for _ in range(world_size)]
    for element, place in enumerate(itertools.product(*map(range, shape))):
        shards[place[dim] // size].append(element)
    return shards


@pytest.mark.parametrize("alignment", range(1, 6))
def test_flat_padded_at_every_small_size(agree: Check, alignment: int) -> None:
    for numel, world_size in itertools.product(range(41), range(1, 10)):
        layout = FlatPadded((numel,), world_size, alignment)
        shards = flat_padded(numel, world_size, alignment)
        agree(layout, shards)
        assert layout.padded_numel == sum(map(len, shards))


@pytest.mark.parametrize("world_size", range(1, 10))
def test_chunk_at_every_small_size(agree: Check, world_size: int) -> None:
    for size, inner in itertools.product(range(41), (1, 3)):
        layout = Chunk((size, inner), world_size, 0)
        agree(layout, chunk((size, inner), world_size, 0))
        assert layout.padded_numel == world_size * least(0, 1, world_size, size) * inner


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes_under_every_layout(agree: Check, work_alike: Check, shape: tuple[int, ...]) -> None:
    numel = FlatPadded(shape, 1).numel
    for world_size in range(1, 10):
        for alignment in (1, 2, 5):
            work_alike(FlatPadded(shape, world_size, alignment), flat_padded(numel, world_size, alignment))
        for dim in range(len(shape)):
            agree(Chunk(shape, world_size, dim), chunk(shape, world_size, dim))
            work_alike(Chunk(shape, world_size, dim), chunk(shape, world_size, dim))


@st.composite
def layouts(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Layout, Shards]:
    world_size = draw(st.integers(1, 9))
    if draw(st.booleans()) and shape:
        dim = draw(st.integers(0, len(shape) - 1))
        return Chunk(shape, world_size, dim), chunk(shape, world_size, dim)
    alignment = draw(st.integers(1, 5))
    flat = FlatPadded(shape, world_size, alignment)
    return flat, flat_padded(flat.numel, world_size, alignment)


shapes = st.lists(st.integers(0, 6), max_size=4).map(tuple)


@given(data=st.data(), shape=shapes)
@settings(max_examples=150, deadline=None)
def test_random_shapes(agree: Check, work_alike: Check, data: st.DataObject, shape: tuple[int, ...]) -> None:
    layout, shards = data.draw(layouts(shape))
    agree(layout, shards)
    work_alike(layout, shards)


@given(data=st.data(), shape=shapes)
@settings(max_examples=150, deadline=None)
def test_resharding_there_and_back_is_the_identity(data: st.DataObject, shape: tuple[int, ...]) -> None:
    (old, _), (new, listed) = data.draw(layouts(shape)), data.draw(layouts(shape))
    values = np.arange(1, 1 + old.numel, dtype=np.uint16).reshape(shape)
    before = partition(values, old)
    between = reshard(before, old, new)
    flat = values.reshape(-1).tolist()
    assert [shard.tolist() for shard in between] == [
        [0 if e == PADDING else flat[e] for e in shard] for shard in listed
    ]
    after = reshard(between, new, old)
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
