"""Layouts against tables written by hand, against torch.chunk and numpy.array_split, and at sizes no memory holds."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import Chunk, FlatPadded, Layout, Run, index_map, locate, owners

HUGE = 2**62
_ = -1

# N, W, alignment -> what lies in each shard
FLAT_BY_HAND = [
    (5, 2, 1, [[0, 1, 2], [3, 4, _]]),
    (1, 4, 1, [[0], [_], [_], [_]]),
    (0, 3, 1, [[], [], []]),
    (6, 3, 1, [[0, 1], [2, 3], [4, 5]]),
    (7, 1, 1, [[0, 1, 2, 3, 4, 5, 6]]),
    (5, 4, 1, [[0, 1], [2, 3], [4, _], [_, _]]),
    (5, 2, 4, [[0, 1, 2, 3], [4, _, _, _]]),
    (2, 2, 4, [[0, 1, _, _], [_, _, _, _]]),
    (7, 1, 4, [[0, 1, 2, 3, 4, 5, 6, _]]),
]
CHUNK_BY_HAND = [
    ((5,), 2, 0, [[0, 1, 2], [3, 4]]),
    ((3,), 4, 0, [[0], [1], [2], []]),
    ((5,), 4, 0, [[0, 1], [2, 3], [4], []]),
    ((3, 2), 2, 0, [[0, 1, 2, 3], [4, 5]]),
    ((3, 2), 2, 1, [[0, 2, 4], [1, 3, 5]]),
    ((2, 3), 2, 1, [[0, 1, 3, 4], [2, 5]]),
    ((2, 2, 2), 2, 1, [[0, 1, 4, 5], [2, 3, 6, 7]]),
    ((1, 0, 2), 2, 2, [[], []]),
]
# Both say the same exactly where at most the last non-empty part is short, and by one slice at most.
SPLITS = list(itertools.product(range(20), range(1, 9)))

RUNS = [
    (Chunk((151936, 4096), 8, 1), 3, (Run(0, 1536, 512, 4096, 151936),)),
    (Chunk((151936, 4096), 8, 0), 3, (Run(0, 3 * 18992 * 4096, 18992 * 4096, 18992 * 4096, 1),)),
    (Chunk((6, 4), 1, 1), 0, (Run(0, 0, 24, 24, 1),)),  # one rank's blocks touch: one block
    (Chunk((1, 4), 2, 1), 1, (Run(0, 2, 2, 2, 1),)),
    (Chunk((3,), 4), 3, ()),
    (FlatPadded((151936, 4096), 7), 6, (Run(0, 6 * 88904266, 88904260, 88904260, 1),)),
    (FlatPadded((1,), 4), 1, ()),
]
COMMON = {"padding-minimal", "owned-exactly-once", "empty-shard-legal", "logical-size-carried"}
OWES = [
    (FlatPadded((5, 3), 2, 4), COMMON | {"order-kept", "boundaries-divisible"}),
    (Chunk((5, 3), 2, 0), COMMON | {"order-kept"}),
    (Chunk((1, 3), 2, 1), COMMON | {"order-kept"}),
    (Chunk((0, 3), 2, 1), COMMON | {"order-kept"}),
    (Chunk((5, 3), 2, 1), COMMON),
]
PADDED = [
    (FlatPadded((), 4), 4),
    (FlatPadded((1, 0, 2), 4), 0),
    (FlatPadded((5,), 2, 4), 8),
    (Chunk((5, 3), 4, 0), 24),
    (Chunk((5, 3), 4, 1), 20),
    (Chunk((2, 5, 3), 4, 1), 48),
    (Chunk((0, 3), 4, 0), 0),
]
REFUSED: list[tuple[type, tuple[Any, ...], str]] = [
    (FlatPadded, ((5,), 0), "world size: observed 0, expected at least 1"),
    (FlatPadded, ((5,), -2), "world size: observed -2, expected at least 1"),
    (FlatPadded, ((5,), 2, 0), "alignment: observed 0, expected at least 1"),
    (FlatPadded, ((5, -1), 2), r"shape: observed \(5, -1\), expected no negative dim"),
    (Chunk, ((5,), 0), "world size: observed 0, expected at least 1"),
    (Chunk, ((-5,), 2), r"shape: observed \(-5,\), expected no negative dim"),
    (Chunk, ((5, 2), 2, 2), "dim: observed 2, expected 0 <= dim < 2"),
    (Chunk, ((5, 2), 2, -1), "dim: observed -1, expected 0 <= dim < 2"),
    (Chunk, ((), 2), "dim: observed 0, expected 0 <= dim < 0"),
]


def listed(layout: Layout) -> list[list[int]]:
    return [index_map(layout, rank).tolist() for rank in range(layout.world_size)]


@pytest.mark.parametrize(("numel", "world_size", "alignment", "expected"), FLAT_BY_HAND)
def test_flat_padded_by_hand(numel: int, world_size: int, alignment: int, expected: list[list[int]]) -> None:
    assert listed(FlatPadded((numel,), world_size, alignment)) == expected


@pytest.mark.parametrize(("shape", "world_size", "dim", "expected"), CHUNK_BY_HAND)
def test_chunk_by_hand(shape: tuple[int, ...], world_size: int, dim: int, expected: list[list[int]]) -> None:
    assert listed(Chunk(shape, world_size, dim)) == expected


@pytest.mark.parametrize("shape", [(7,), (1,), (0,), (5, 3), (1, 8), (3, 0), (3, 4, 5), (2, 1, 9)], ids=str)
def test_chunk_is_torch_chunk_with_empty_shards_where_it_stops(shape: tuple[int, ...]) -> None:
    full = torch.arange(np.prod(shape, dtype=int)).reshape(shape)
    for world_size, dim in itertools.product(range(1, 10), range(len(shape))):
        layout = Chunk(shape, world_size, dim)
        chunks = torch.chunk(full, world_size, dim)
        pieces = [*chunks, *[full.narrow(dim, 0, 0)] * (world_size - len(chunks))]
        assert listed(layout) == [piece.reshape(-1).tolist() for piece in pieces]
        assert [layout.shard_shape(rank) for rank in range(world_size)] == [tuple(piece.shape) for piece in pieces]


def test_a_scalar_has_no_dim_to_chunk_for_torch_either() -> None:
    with pytest.raises(RuntimeError, match="at least a 1-dimensional"):
        torch.chunk(torch.tensor(1.0), 2)


@pytest.mark.parametrize(("size", "world_size"), SPLITS)
def test_chunk_is_array_split_exactly_where_both_deal_alike(size: int, world_size: int) -> None:
    split = [part.tolist() for part in np.array_split(np.arange(size), world_size)]
    alike = size < world_size or size % world_size in (0, world_size - 1)
    assert (listed(Chunk((size,), world_size)) == split) == alike


@pytest.mark.parametrize(("layout", "rank", "expected"), RUNS)
def test_runs_are_few(layout: Layout, rank: int, expected: tuple[Run, ...]) -> None:
    assert layout.runs(rank) == expected


@pytest.mark.parametrize(("layout", "expected"), OWES, ids=[str(layout) for layout, _ in OWES])
def test_laws_owed(layout: Layout, expected: set[str]) -> None:
    assert layout.owes == expected


@pytest.mark.parametrize(("layout", "expected"), PADDED, ids=str)
def test_padded_numel(layout: Layout, expected: int) -> None:
    assert layout.padded_numel == expected


@pytest.mark.parametrize(("kind", "arguments", "message"), REFUSED)
def test_refused(kind: type, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        kind(*arguments)


@pytest.mark.parametrize("layout", [FlatPadded((5,), 2), Chunk((5,), 2)])
@pytest.mark.parametrize("rank", [-1, 2])
def test_a_rank_outside_of_the_world_is_refused(layout: Layout, rank: int) -> None:
    for question in (layout.shard_numel, layout.owned, layout.runs):
        with pytest.raises(ValueError, match=f"^rank: observed {rank}, expected 0 <= rank < 2$"):
            question(rank)


def test_an_offset_or_index_outside_is_refused() -> None:
    layout = FlatPadded((5,), 2)
    assert locate(layout, 1, 2) is None
    for offset in (-1, 3):
        with pytest.raises(ValueError, match=f"^offset: observed {offset}, expected 0 <= offset < 3$"):
            locate(layout, 1, offset)
    for index in (-1, 5):
        with pytest.raises(ValueError, match=f"^index: observed {index}, expected 0 <= index < 5$"):
            owners(layout, index)


@pytest.mark.parametrize("kind", [FlatPadded, Chunk])
def test_numpy_integers_become_plain_ones(kind: type) -> None:
    layout = kind((np.int32(2**31 - 1), np.int32(2**31 - 1)), np.int8(3))
    assert layout.numel == (2**31 - 1) ** 2
    assert layout == kind((2**31 - 1, 2**31 - 1), 3)
    assert hash(layout) == hash(kind([2**31 - 1, 2**31 - 1], 3))


def test_questions_are_answered_where_no_array_could_be() -> None:
    for layout in (FlatPadded((2**40, 2**22), 9, 512), Chunk((2**40, 2**22), 9, 1)):
        assert layout.numel == HUGE
        for rank in range(9):
            element = locate(layout, rank, layout.owned(rank) - 1)
            assert element is not None
            assert (rank, layout.owned(rank) - 1) in owners(layout, element)


@st.composite
def huge_layouts(draw: st.DrawFn) -> Layout:
    outer = draw(st.integers(0, 2**20))
    size = draw(st.integers(0, 2**20))
    inner = draw(st.integers(0, HUGE // max(outer * size, 1)))
    world_size = draw(st.integers(1, 64))
    if draw(st.booleans()):
        return Chunk((outer, size, inner), world_size, draw(st.integers(0, 2)))
    return FlatPadded((outer, size, inner), world_size, draw(st.integers(1, 2**20)))


@given(huge_layouts(), st.data())
@settings(max_examples=150, deadline=None)
def test_huge_layouts_own_every_element_once(layout: Layout, data: st.DataObject) -> None:
    ranks = range(layout.world_size)
    assert sum(layout.owned(rank) for rank in ranks) == layout.numel <= layout.padded_numel
    assert all(len(layout.runs(rank)) == (layout.owned(rank) > 0) for rank in ranks)
    if layout.numel:
        index = data.draw(st.integers(0, layout.numel - 1))
        ((rank, offset),) = owners(layout, index)
        assert locate(layout, rank, offset) == index


@given(st.integers(0, HUGE), st.integers(1, 2**16), st.integers(1, 2**16), st.data())
@settings(deadline=None)
def test_huge_flat_padding_is_minimal(numel: int, world_size: int, alignment: int, data: st.DataObject) -> None:
    layout = FlatPadded((numel,), world_size, alignment)
    shard_numel = layout.shard_numel(0)
    assert shard_numel % alignment == 0
    assert (
        layout.padded_numel == world_size * shard_numel >= numel > world_size * (shard_numel - alignment) - (numel == 0)
    )
    rank = data.draw(st.integers(0, world_size - 1))
    assert layout.owned(rank) == max(0, min(shard_numel, numel - rank * shard_numel))
    assert (layout.owned(rank) == 0) == (rank * shard_numel >= numel)
