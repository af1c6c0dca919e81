"""A reduced shape is cut as the true one is, said in plain arithmetic."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardproof.case import LayoutSpec
from shardproof.errors import UsageError
from shardproof.model_shapes import reduced, shape_set, shape_sets

TRUE_SHAPES = sorted({parameter.shape for name in shape_sets() for parameter in shape_set(name).parameters})
WORLD_SIZES = (1, 2, 3, 4, 5, 7, 8, 64)
BY_HAND = [
    ((), 4, LayoutSpec(), ()),
    ((5,), 4, LayoutSpec(), (5,)),
    ((1, 1), 3, LayoutSpec(), (1, 1)),
    ((3, 0, 9), 2, LayoutSpec(), (3, 0, 3)),
    ((0, 4096), 2, LayoutSpec("chunk"), (0, 3)),
    ((4096, 4096), 2, LayoutSpec(), (2, 2)),
    ((151_936, 4096), 3, LayoutSpec("chunk"), (7, 3)),
    ((151_936, 4096), 3, LayoutSpec("chunk", dim=1), (3, 7)),
    ((1, 50_257), 2, LayoutSpec(), (1, 5)),
    ((1, 50_257), 2, LayoutSpec("ragged", units=(7,)), (1, 5)),
    ((1, 50_257), 2, LayoutSpec("bucket", bucket_alignment=128), (1, 5)),
    ((1, 50_257), 4, LayoutSpec("grouped", group_size=2), (1, 5)),
    ((50_257, 768), 4, LayoutSpec("grouped_chunk", group_size=2), (5, 3)),
    ((151_936, 4096), 6, LayoutSpec("two_dimensional", dim=0, mesh=(2, 3)), (7, 3)),
]


@pytest.mark.parametrize(("shape", "world_size", "layout", "small"), BY_HAND, ids=str)
def test_by_hand(shape: tuple[int, ...], world_size: int, layout: LayoutSpec, small: tuple[int, ...]) -> None:
    assert reduced(shape, world_size, layout) == small


@pytest.mark.parametrize("world_size", WORLD_SIZES)
@pytest.mark.parametrize("alignment", [1, 2, 8, 64])
def test_real_shapes_flat(world_size: int, alignment: int) -> None:
    for shape in TRUE_SHAPES:
        small = reduced(shape, world_size, LayoutSpec(alignment=alignment))
        assert_cut_alike_flat(shape, small, world_size, alignment)
        assert prod(small) <= (world_size + 3) * world_size * alignment


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_real_shapes_chunked(world_size: int) -> None:
    for shape in TRUE_SHAPES:
        for dim in range(len(shape)):
            small = reduced(shape, world_size, LayoutSpec("chunk", dim=dim))
            assert_cut_alike_chunked(shape, small, world_size, dim)
            assert prod(small) <= 9 * (world_size * world_size + 2 * world_size)


SHAPES = st.lists(st.integers(0, 40), max_size=4).map(tuple)


@settings(max_examples=300, deadline=None)
@given(SHAPES, st.integers(1, 40), st.integers(1, 9))
def test_any_shape_flat(shape: tuple[int, ...], world_size: int, alignment: int) -> None:
    small = reduced(shape, world_size, LayoutSpec(alignment=alignment))
    assert_cut_alike_flat(shape, small, world_size, alignment)


@settings(max_examples=300, deadline=None)
@given(SHAPES.filter(len), st.integers(1, 40), st.data())
def test_any_shape_chunked(shape: tuple[int, ...], world_size: int, data: st.DataObject) -> None:
    dim = data.draw(st.integers(0, len(shape) - 1))
    small = reduced(shape, world_size, LayoutSpec("chunk", dim=dim))
    assert_cut_alike_chunked(shape, small, world_size, dim)


def assert_cut_alike_flat(true: tuple[int, ...], small: tuple[int, ...], world_size: int, alignment: int) -> None:
    assert_smaller(true, small)
    block = world_size * alignment
    assert prod(small) % block == prod(true) % block
    assert idle_ranks(prod(small), world_size, alignment) == idle_ranks(prod(true), world_size, alignment)


def assert_cut_alike_chunked(true: tuple[int, ...], small: tuple[int, ...], world_size: int, dim: int) -> None:
    assert_smaller(true, small)
    assert small[dim] % world_size == true[dim] % world_size
    assert idle_ranks(small[dim], world_size, 1) == idle_ranks(true[dim], world_size, 1)


def assert_smaller(true: tuple[int, ...], small: tuple[int, ...]) -> None:
    assert len(small) == len(true)
    assert prod(small) <= prod(true)
    assert [min(size, 2) for size in small] == [min(size, 2) for size in true]


def idle_ranks(length: int, world_size: int, alignment: int) -> list[int]:
    """The ranks whose part begins at or past the end."""
    part = -(-length // world_size)
    part = -(-part // alignment) * alignment
    return [rank for rank in range(world_size) if rank * part >= length]


def test_a_layout_without_a_model() -> None:
    with pytest.raises(UsageError, match="spiral"):
        reduced((8, 8), 2, LayoutSpec("spiral"))  # type: ignore[arg-type]  # there is none
