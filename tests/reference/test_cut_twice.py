"""Layouts made of others: grouped, ragged, bucketed, two-dimensional, each against a walk over its elements."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from math import lcm, prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import (
    PADDING,
    Bucketed,
    Chunk,
    FlatPadded,
    Grouped,
    InBucket,
    Layout,
    Ragged,
    Run,
    TwoDimensional,
    gather,
    index_map,
    locate,
    norm_squared,
    owners,
    partition,
    reduce_scatter,
    reshard,
    whole_units,
)

Shards = list[list[int]]
Check = Callable[[Layout, Shards], None]
Shapes = tuple[tuple[int, ...], ...]

HUGE = 2**62

# numel, W, units -> lengths
UNITS_BY_HAND = [
    (10, 2, (1,), (5, 5)),
    (10, 2, (4,), (8, 2)),
    (10, 3, (4,), (4, 4, 2)),
    (10, 3, (10,), (10, 0, 0)),
    (10, 4, (5,), (5, 5, 0, 0)),  # the unit at 5 starts in rank 1's share, [3, 6)
    (12, 4, (1, 5), (6, 0, 6, 0)),  # units start at 0 and 1, then 6 and 7: none in rank 1's share
    (0, 3, (7,), (0, 0, 0)),
    (3, 2, (100,), (3, 0)),
    (HUGE, 2, (3,), (2**61 + 1, 2**61 - 1)),
]
# shapes, arguments -> starts and edges
BUCKETS_BY_HAND: list[tuple[Shapes, dict[str, int], tuple[int, ...], tuple[int, ...]]] = [
    (((5,), (7,)), {"world_size": 2}, (0, 5), (0, 12)),
    (((5,), (7,)), {"world_size": 5}, (0, 5), (0, 15)),
    (((5,), (7,)), {"world_size": 2, "bucket_numel": 6}, (0, 6), (0, 6, 14)),
    (((5,), (7,)), {"world_size": 2, "bucket_numel": 12}, (0, 5), (0, 12)),
    (((7,), (2,), (3,)), {"world_size": 3, "bucket_numel": 5}, (0, 9, 11), (0, 9, 15)),
    (((5,), (7,)), {"world_size": 2, "alignment": 4}, (0, 5), (0, 16)),
    (((100,), (100,)), {"world_size": 3, "parameter_alignment": 64, "bucket_alignment": 128}, (0, 128), (0, 384)),
    (((2,), (), (1, 0)), {"world_size": 1}, (0, 2, 3), (0, 3)),
    (((0,),), {"world_size": 4}, (0,), (0, 0)),
    (((3,), (0,)), {"world_size": 1}, (0, 3), (0, 3)),
    (((2,), (5,), (1,), (0,)), {"world_size": 2, "bucket_least": 6}, (0, 2, 8, 9), (0, 8, 10)),
    (((6,), (0,)), {"world_size": 2, "bucket_least": 6}, (0, 6), (0, 6, 6)),
    (((5,), (1,)), {"world_size": 1, "bucket_least": 6, "parameter_alignment": 8}, (0, 8), (0, 9)),
]
RUNS = [
    (TwoDimensional((151936, 4096), (4, 8), 1), 4 * 8 - 1, 1),
    (TwoDimensional((151936, 4096), (7, 5), 1), 17, 3),
    (TwoDimensional((151936, 4096), (4, 8), 0), 9, 1),
    (TwoDimensional((151936, 4096), (4, 8), 0, 1), 9, 1),
    (TwoDimensional((151936, 4096), (4, 8), 1, 0), 9, 1),
    (TwoDimensional((151936, 4096), (4, 8), 1, 1), 9, 1),
    (TwoDimensional((151936, 4096), (4, 8), 1, 1), 31, 1),
    (TwoDimensional((151936, 4096), (4, 8), 0, 0), 9, 1),
    (TwoDimensional((8, 2**30, 2**29), (3, 5), 2, 1), 7, 8),
    (TwoDimensional((8, 2**30, 2**29), (3, 5), 1, 2), 7, 8),
]
TWO_DIMENSIONAL_PADDED = [
    (TwoDimensional((5, 4), (2, 3)), 3 * 8),
    (TwoDimensional((5, 4), (2, 3), 0, None, 3), 3 * 12),
    (TwoDimensional((5, 3), (2, 3), 0, 1), 3 * 8),
    (TwoDimensional((5, 3), (4, 2), 1, 0), 2 * 16),
]
ALWAYS = {"padding-minimal", "empty-shard-legal", "logical-size-carried"}
OWES: list[tuple[Layout, set[str]]] = [
    (Grouped(FlatPadded((5,), 2), 1), ALWAYS | {"owned-exactly-once", "order-kept", "boundaries-divisible"}),
    (Grouped(FlatPadded((5,), 2), 2), ALWAYS),
    (Ragged((5,), (0, 5)), ALWAYS | {"owned-exactly-once", "order-kept"}),
    (Bucketed(((5,), (7,)), 2), ALWAYS | {"owned-exactly-once", "order-kept"}),
    (Bucketed(((5,), (7,)), 2, 6), ALWAYS | {"owned-exactly-once"}),
    (
        InBucket(Bucketed(((5,), (7,)), 2, 6), 1),
        ALWAYS | {"owned-exactly-once", "order-kept", "buckets-divisible", "buckets-tile"},
    ),
    (TwoDimensional((5, 4), (2, 3)), ALWAYS | {"owned-exactly-once"}),
]
REFUSED: list[tuple[Callable[..., object], tuple[Any, ...], str]] = [
    (Grouped, (FlatPadded((5,), 2), 0), "replicas: observed 0, expected at least 1"),
    (Ragged, ((5,), (2, 2)), r"lengths: observed \(2, 2\), expected one a rank, 5 in all"),
    (Ragged, ((0,), ()), r"lengths: observed \(\), expected one a rank, 0 in all"),
    (Ragged, ((5,), (6, -1)), "length: observed -1, expected at least 0"),
    (whole_units, (5, 2, ()), "units: observed none, expected at least one"),
    (whole_units, (5, 2, (3, 0)), "unit: observed 0, expected at least 1"),
    (whole_units, (5, 0, (3,)), "world size: observed 0, expected at least 1"),
    (whole_units, (-5, 2, (3,)), "numel: observed -5, expected at least 0"),
    (Bucketed, ((), 2), "shapes: observed none, expected at least one"),
    (Bucketed, (((5,),), 0), "world size: observed 0, expected at least 1"),
    (Bucketed, (((5,),), 2, 0), "bucket numel: observed 0, expected at least 1"),
    (Bucketed, (((5,),), 2, None, 0), "parameter alignment: observed 0, expected at least 1"),
    (Bucketed, (((5,),), 2, None, 1, 0), "bucket alignment: observed 0, expected at least 1"),
    (Bucketed, (((5,),), 2, None, 1, 1, 0), "alignment: observed 0, expected at least 1"),
    (Bucketed, (((5,),), 2, None, 1, 1, 1, 0), "bucket least: observed 0, expected at least 1"),
    (InBucket, (Bucketed(((5,),), 2), 1), "parameter: observed 1, expected 0 <= parameter < 1"),
    (TwoDimensional, ((5, 2), (0, 2)), "data ranks: observed 0, expected at least 1"),
    (TwoDimensional, ((5, 2), (2, 0)), "tensor ranks: observed 0, expected at least 1"),
    (TwoDimensional, ((5, 2), (2, 2), 2), "dim: observed 2, expected 0 <= dim < 2"),
    (TwoDimensional, ((5, 2), (2, 2), 0, 2), "dim: observed 2, expected 0 <= dim < 2"),
    (TwoDimensional, ((5, 2), (2, 2), 0, None, 0), "alignment: observed 0, expected at least 1"),
]

shapes = st.lists(st.integers(0, 6), max_size=4).map(tuple)
shaped = st.lists(st.integers(0, 5), min_size=1, max_size=3).map(tuple)
ranks = st.integers(1, 4)


def dealt(numel: int, world_size: int, units: tuple[int, ...]) -> Shards:
    """Give each unit as a whole to the rank in whose even share its first element lies."""
    share = next(size for size in itertools.count() if world_size * size >= numel)
    shards: Shards = [[] for _ in range(world_size)]
    start = 0
    for unit in itertools.cycle(units):
        if start >= numel:
            return shards
        shards[start // share].extend(range(start, min(start + unit, numel)))
        start += unit
    return shards


def packed(buffer: Bucketed) -> list[list[int]]:
    """Every bucket as a list of the logical elements in it, one element after the other."""
    whole = lcm(buffer.world_size * buffer.alignment, buffer.bucket_alignment)
    buckets: list[list[int]] = [[]]
    before, element = 0, 0
    for shape in buffer.shapes:
        bucket = buckets[-1]
        start = len(bucket)
        while (before + start) % buffer.parameter_alignment:
            start += 1
        over = buffer.bucket_numel is not None and bucket and start + prod(shape) > buffer.bucket_numel
        if over or (buffer.bucket_least is not None and len(bucket) >= buffer.bucket_least):
            while len(bucket) % whole:
                bucket.append(PADDING)
            before += len(bucket)
            buckets.append([])
        bucket = buckets[-1]
        while (before + len(bucket)) % buffer.parameter_alignment:
            bucket.append(PADDING)
        for _ in range(prod(shape)):
            bucket.append(element)
            element += 1
    while len(buckets[-1]) % whole:
        buckets[-1].append(PADDING)
    return buckets


def shares(buckets: list[list[int]], world_size: int) -> Shards:
    """What each rank has of every bucket, bucket after bucket."""
    shards: Shards = [[] for _ in range(world_size)]
    for bucket in buckets:
        size = len(bucket) // world_size
        for rank, shard in enumerate(shards):
            shard.extend(bucket[rank * size : (rank + 1) * size])
    return shards


def cut_again(shape: tuple[int, ...], mesh: tuple[int, int], dim: int, data_dim: int | None, alignment: int) -> Shards:
    """Cut an array of element numbers, and then each piece, as arrays."""
    data, tensor = mesh
    elements = np.arange(prod(shape)).reshape(shape)
    shards: dict[int, list[int]] = {}
    for t, piece in enumerate(pieces_of(elements, tensor, dim)):
        flat = piece.reshape(-1).tolist()
        size = next(size for size in itertools.count(0, alignment) if data * size >= len(flat))
        flat += [PADDING] * (data * size - len(flat))
        for d in range(data):
            chunked = None if data_dim is None else pieces_of(piece, data, data_dim)[d].reshape(-1).tolist()
            shards[d * tensor + t] = flat[d * size : (d + 1) * size] if chunked is None else chunked
    return [shards[rank] for rank in range(data * tensor)]


def pieces_of(array: np.ndarray[Any, Any], world_size: int, dim: int) -> list[np.ndarray[Any, Any]]:
    """Slices of ceil(size / W), the last ones short or empty."""
    size = next(size for size in itertools.count() if world_size * size >= array.shape[dim])
    return [np.take(array, range(array.shape[dim])[r * size : (r + 1) * size], dim) for r in range(world_size)]


@pytest.mark.parametrize(("numel", "world_size", "units", "expected"), UNITS_BY_HAND)
def test_units_by_hand(numel: int, world_size: int, units: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert whole_units(numel, world_size, units) == expected


@given(shape=shapes, world_size=ranks, units=st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple))
@settings(deadline=None)
def test_ragged(agree: Check, work_alike: Check, shape: tuple[int, ...], world_size: int, units: Any) -> None:
    layout = Ragged(shape, whole_units(prod(shape), world_size, units))
    shards = dealt(prod(shape), world_size, units)
    agree(layout, shards)
    work_alike(layout, shards)
    assert layout.padded_numel == world_size * max(map(len, shards))


@pytest.mark.parametrize("inner", [FlatPadded((2, 5), 3, 2), Chunk((2, 5), 2, 1), Ragged((4,), (0, 3, 1))], ids=str)
@pytest.mark.parametrize("replicas", [1, 2, 3])
def test_grouped(agree: Check, work_alike: Check, inner: Layout, replicas: int) -> None:
    shards = [index_map(inner, rank).tolist() for rank in range(inner.world_size)] * replicas
    layout = Grouped(inner, replicas)
    agree(layout, shards)
    work_alike(layout, shards)
    assert layout.padded_numel == inner.padded_numel
    assert all(len(owners(layout, element)) == replicas for element in range(layout.numel))


@pytest.mark.parametrize(("numel", "world_size", "group"), [(1, 4, 2), (5, 4, 2), (13, 6, 2), (13, 6, 3), (7, 8, 4)])
def test_a_secondary_shard_is_that_of_several_primary_ones(numel: int, world_size: int, group: int) -> None:
    primary = FlatPadded((numel,), world_size)
    together = world_size // group
    secondary = Grouped(FlatPadded((numel,), group, together), together)
    for rank in range(group):
        parts = [index_map(primary, rank * together + part).tolist() for part in range(together)]
        assert index_map(secondary, rank).tolist() == list(itertools.chain(*parts))


@pytest.mark.parametrize(("given_shapes", "arguments", "starts", "edges"), BUCKETS_BY_HAND)
def test_buckets_by_hand(given_shapes: Shapes, arguments: Any, starts: Any, edges: Any) -> None:
    buffer = Bucketed(given_shapes, **arguments)
    assert (buffer.starts, buffer.edges) == (starts, edges)


@pytest.mark.parametrize(
    ("given_shapes", "arguments", "numbers"),
    [
        (((7,), (2,), (3,)), {"world_size": 3, "bucket_numel": 5}, (0, 1, 1)),
        (((2,), (2,), (9,), (1,)), {"world_size": 1, "bucket_numel": 2}, (0, 1, 2, 3)),
        # One without elements is in the bucket that was open, though the next one starts in the same place.
        (((3,), (0,)), {"world_size": 1}, (0, 0)),
        (((4,), (0,), (1,)), {"world_size": 2, "bucket_numel": 4}, (0, 0, 1)),
        (((0,), (0, 3)), {"world_size": 2, "bucket_numel": 1}, (0, 0)),
    ],
)
def test_bucket_numbers_by_hand(given_shapes: Shapes, arguments: Any, numbers: tuple[int, ...]) -> None:
    buffer = Bucketed(given_shapes, **arguments)
    assert buffer.numbers == numbers
    for index, number in enumerate(numbers):
        assert buffer.bucket_of(index) == (buffer.edges[number], buffer.edges[number + 1])


@given(
    given_shapes=st.lists(st.lists(st.integers(0, 4), max_size=3).map(tuple), min_size=1, max_size=5).map(tuple),
    world_size=ranks,
    cap=st.none() | st.integers(1, 40),
    least=st.none() | st.integers(1, 40),
    alignments=st.tuples(*[st.sampled_from([1, 2, 3, 4, 8])] * 3),
)
@settings(max_examples=200, deadline=None)
def test_buckets(
    agree: Check,
    work_alike: Check,
    given_shapes: Shapes,
    world_size: int,
    cap: int | None,
    least: int | None,
    alignments: Any,
) -> None:
    buffer = Bucketed(given_shapes, world_size, cap, *alignments, least)
    buckets = packed(buffer)
    shards = shares(buckets, world_size)
    agree(buffer, shards)
    work_alike(buffer, shards)
    assert buffer.edges == tuple(itertools.accumulate(map(len, buckets), initial=0))
    before = 0
    for index, shape in enumerate(given_shapes):
        mine = range(before, before + prod(shape))
        layout = InBucket(buffer, index)
        alone = [[element - before for element in shard if element in mine] for shard in shards]
        agree(layout, alone)
        work_alike(layout, alone)
        holding = [len(bucket) for bucket in buckets if set(bucket) & set(mine)]
        assert not mine or [layout.padded_numel] == holding
        before += len(mine)


@given(shape=shaped, mesh=st.tuples(ranks, ranks), data=st.data())
@settings(max_examples=200, deadline=None)
def test_two_dimensional(
    agree: Check, work_alike: Check, shape: tuple[int, ...], mesh: tuple[int, int], data: st.DataObject
) -> None:
    dims = st.integers(0, len(shape) - 1)
    dim, data_dim, alignment = data.draw(st.tuples(dims, st.none() | dims, st.integers(1, 4)))
    layout = TwoDimensional(shape, mesh, dim, data_dim, alignment)
    shards = cut_again(shape, mesh, dim, data_dim, alignment)
    agree(layout, shards)
    work_alike(layout, shards)


@pytest.mark.parametrize(("layout", "expected"), TWO_DIMENSIONAL_PADDED, ids=str)
def test_a_gather_pads_every_chunk_like_the_first(layout: TwoDimensional, expected: int) -> None:
    assert layout.padded_numel == expected


@pytest.mark.parametrize(("layout", "rank", "count"), RUNS)
def test_runs_stay_few(layout: TwoDimensional, rank: int, count: int) -> None:
    runs = layout.runs(rank)
    assert len(runs) == count
    assert sum(run.numel for run in runs) == layout.owned(rank)
    assert [run.local for run in runs] == list(itertools.accumulate([run.numel for run in runs[:-1]], initial=0))


@pytest.mark.parametrize("index", [-1, 2])
def test_a_parameter_outside_of_the_buffer_has_no_bucket(index: int) -> None:
    with pytest.raises(ValueError, match=f"^parameter: observed {index}, expected 0 <= parameter < 2$"):
        Bucketed(((2,), (3,)), 1).bucket_of(index)


def test_parameters_that_touch_in_the_buffer_are_one_run() -> None:
    assert Bucketed(((2,), (3,)), 1).runs(0) == (Run(0, 0, 5, 5, 1),)
    apart = Bucketed(((2,), (3,)), 1, None, 4)
    assert apart.runs(0) == (Run(0, 0, 2, 2, 1), Run(4, 2, 3, 3, 1))


def test_a_matrix_cut_by_columns_twice_is_one_run() -> None:
    assert TwoDimensional((151936, 4096), (4, 8), 1, 1).runs(9) == (Run(0, 640, 128, 4096, 151936),)


@pytest.mark.parametrize(
    "layout",
    [
        Ragged((2**31, 2**31), whole_units(HUGE, 9, (2**20, 3))),
        Grouped(FlatPadded((2**31, 2**31), 3), 3),
        Bucketed(((2**60, 3), (5,), (2**60 - 5,)), 9, 2**61, 64, 128),
        InBucket(Bucketed(((7,), (2**62,)), 9, 2**61, 64, 128), 1),
        TwoDimensional((2**31, 2**31), (3, 3), 1),
    ],
    ids=lambda layout: type(layout).__name__,
)
def test_huge_layouts_answer_without_memory(layout: Layout) -> None:
    assert layout.numel == HUGE
    for rank in range(layout.world_size):
        for run in layout.runs(rank):
            assert (
                locate(layout, rank, run.local + run.numel - 1)
                == run.start + (run.count - 1) * run.stride + run.length - 1
            )
            assert (rank, run.local) in owners(layout, run.start)
    assert sum(layout.owned(rank) for rank in range(layout.world_size)) == HUGE * len(owners(layout, 0))


@pytest.mark.parametrize(("layout", "expected"), OWES, ids=[str(layout) for layout, _ in OWES])
def test_laws_owed(layout: Layout, expected: set[str]) -> None:
    assert layout.owes == expected


@pytest.mark.parametrize(("make", "arguments", "message"), REFUSED)
def test_refused(make: Callable[..., object], arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        make(*arguments)


EVERY_KIND: list[Layout] = [
    FlatPadded((6, 4), 3, 5),
    Chunk((6, 4), 5, 1),
    Ragged((6, 4), (0, 20, 0, 4)),
    Grouped(Chunk((6, 4), 2, 0), 3),
    InBucket(Bucketed(((3,), (6, 4), (9,)), 4, None, 8), 1),
    TwoDimensional((6, 4), (2, 3), 1, None, 4),
    TwoDimensional((6, 4), (2, 2), 1, 1),
]


@pytest.mark.parametrize("layout", [*EVERY_KIND, Bucketed(((6, 4), (3,)), 4)], ids=lambda layout: layout.kind)
def test_a_rank_outside_of_the_world_is_refused(layout: Layout) -> None:
    for rank, question in itertools.product((-1, layout.world_size), (layout.shard_numel, layout.owned, layout.runs)):
        with pytest.raises(ValueError, match=f"^rank: observed {rank}, expected 0 <= rank < {layout.world_size}$"):
            question(rank)


@pytest.mark.parametrize(("old", "new"), list(itertools.permutations(EVERY_KIND, 2)))
def test_any_layout_reshards_to_any_other_and_back(old: Layout, new: Layout) -> None:
    full = np.arange(1, 25).reshape(6, 4)
    before = partition(full, old)
    between = reshard(before, old, new)
    assert [shard.tolist() for shard in between] == [shard.tolist() for shard in partition(full, new)]
    assert [shard.tolist() for shard in reshard(between, new, old)] == [shard.tolist() for shard in before]
    assert norm_squared(between, new) == norm_squared(before, old)


def test_replicas_all_get_the_sum_over_all_ranks() -> None:
    layout = Grouped(FlatPadded((3,), 2), 2)
    shards = reduce_scatter([np.array([1, 2, 3]) * 10**rank for rank in range(4)], layout, "sum")
    assert [shard.tolist() for shard in shards] == [[1111, 2222], [3333, 0]] * 2
    assert gather(shards, layout).tolist() == [1111, 2222, 3333]
