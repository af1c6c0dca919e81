"""Operations over runs: any dtype, any layout, also one that stores elements twice or in blocks far apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from reference import Chunk, FlatPadded, Layout, Run, gather, norm_squared, owners, partition, reduce_scatter, reshard

LAYOUTS: list[Layout] = [FlatPadded((3, 5), 4), FlatPadded((3, 5), 4, 3), Chunk((3, 5), 4, 0), Chunk((3, 5), 4, 1)]
DTYPES = ["u1", "u2", "u4", "u8", "i1", "f2", "f8", "c8", "?", "V3", "V16"]
# reduction, dtype -> shards of 3 elements on 2 ranks that contribute [1, 2, 3] and [5, 6, 7]
REDUCED = [
    ("sum", "i4", [[6, 8], [10, 0]]),
    ("sum", "f4", [[6, 8], [10, 0]]),
    ("mean", "i4", [[3, 4], [5, 0]]),
    ("mean", "f2", [[3, 4], [5, 0]]),
    ("mean", "c8", [[3, 4], [5, 0]]),
]
FLAT = FlatPadded((3,), 2)


def ints(*values: int, dtype: str = "i8") -> np.ndarray[Any, Any]:
    return np.array(values, dtype)


REFUSED: list[tuple[str, Callable[[], object], str]] = [
    (
        "a parameter of another shape",
        lambda: partition(np.zeros((3, 2)), FlatPadded((2, 3), 2)),
        r"shape of the parameter: observed \(3, 2\), expected \(2, 3\) or \(6,\)",
    ),
    ("too few shards", lambda: gather([ints(1, 2)], FLAT), "number of shards: observed 1, expected 2, one a rank"),
    (
        "a short shard",
        lambda: gather([ints(1, 2), ints(3)], FLAT),
        r"shard of rank 1: observed shape \(1,\), expected \(2,\)",
    ),
    (
        "a shard with a shape",
        lambda: gather([ints(1, 2).reshape(2, 1), ints(3, 0)], FLAT),
        r"shard of rank 0: observed shape \(2, 1\), expected \(2,\)",
    ),
    (
        "mixed dtypes",
        lambda: gather([ints(1, 2), ints(3, 0, dtype="u8")], FLAT),
        "dtype of the shards: observed uint64 on rank 1, expected int64 as on rank 0",
    ),
    (
        "too many contributions",
        lambda: reduce_scatter([ints(1, 2, 3)] * 3, FLAT, "sum"),
        "number of contributions: observed 3, expected 2, one a rank",
    ),
    (
        "a contribution of another shape",
        lambda: reduce_scatter([ints(1, 2, 3), ints(1, 2)], FLAT, "sum"),
        r"shape of the contribution of rank 1: observed \(2,\), expected \(3,\) or \(3,\)",
    ),
    (
        "contributions of mixed dtypes",
        lambda: reduce_scatter([ints(1, 2, 3), ints(1, 2, 3, dtype="f8")], FLAT, "sum"),
        "dtype of the contributions: observed float64 on rank 1, expected int64 as on rank 0",
    ),
    (
        "a sum of booleans",
        lambda: reduce_scatter([ints(0, 1, 1, dtype="?")] * 2, FLAT, "sum"),
        "dtype to reduce: observed bool, expected integers or floats",
    ),
    (
        "another reduction",
        lambda: reduce_scatter([ints(1, 2, 3)] * 2, FLAT, "max"),  # type: ignore[arg-type]  # the point of the test
        "reduction: observed 'max', expected 'sum' or 'mean'",
    ),
    (
        "a mean between integers",
        lambda: reduce_scatter([ints(1, 2, 3), ints(1, 2, 4)], FLAT, "mean"),
        "mean of integers: observed a sum that 2 does not divide, expected an exact mean",
    ),
    (
        "a norm of raw memory",
        lambda: norm_squared([np.zeros(2, "V2")] * 2, FLAT),
        r"dtype of a norm: observed \|V2, expected integers or floats",
    ),
    (
        "another shape to reshard to",
        lambda: reshard([ints(1, 2), ints(3, 0)], FLAT, FlatPadded((4,), 2)),
        r"shape to reshard to: observed \(4,\), expected \(3,\)",
    ),
]


@dataclass(frozen=True)
class Listed:
    """A layout that is nothing but its runs: what the operations are written over."""

    shape: tuple[int, ...]
    numel: int
    by_rank: tuple[tuple[Run, ...], ...]
    stored: int
    kind: str = "listed"
    owes: frozenset[str] = frozenset()

    @property
    def world_size(self) -> int:
        return len(self.by_rank)

    @property
    def padded_numel(self) -> int:
        return self.stored * self.world_size

    def shard_numel(self, rank: int) -> int:  # noqa: ARG002  # every layout's form
        return self.stored

    def owned(self, rank: int) -> int:
        return sum(run.numel for run in self.by_rank[rank])

    def runs(self, rank: int) -> tuple[Run, ...]:
        return self.by_rank[rank]


# Block-cyclic pairs with a hole of one element in front; ranks 2 and 3 store the same again in another order.
TWICE = Listed(
    shape=(2, 4),
    numel=8,
    by_rank=(
        (Run(1, 0, 2, 4, 2),),
        (Run(1, 2, 2, 4, 2),),
        (Run(0, 4, 2, 2, 1), Run(3, 0, 2, 2, 1)),
        (Run(0, 6, 2, 2, 1), Run(3, 2, 2, 2, 1)),
    ),
    stored=5,
)


def random_words(numel: int, dtype: str) -> np.ndarray[Any, Any]:
    words = np.random.default_rng(numel).integers(0, 256, numel * np.dtype(dtype).itemsize, np.uint8)
    return (words & 1 if dtype == "?" else words).view(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_moving_keeps_every_bit_of_any_dtype(layout: Layout, dtype: str) -> None:
    flat = random_words(layout.numel, dtype)
    shards = partition(flat.reshape(layout.shape), layout)
    assert {shard.dtype for shard in shards} == {flat.dtype}
    assert gather(shards, layout).tobytes() == flat.tobytes()
    there = reshard(shards, layout, LAYOUTS[0])
    back = reshard(there, LAYOUTS[0], layout)
    assert [shard.tobytes() for shard in back] == [shard.tobytes() for shard in shards]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_strided_parameter_counts_in_row_major_order(layout: Layout) -> None:
    plain = np.arange(15).reshape(3, 5)
    strided = np.arange(150).reshape(10, 15)[::4, ::3]
    strided[...] = plain
    for full in (strided, np.asfortranarray(plain), plain.reshape(-1), plain.repeat(2)[::2]):
        assert np.array_equal(gather(partition(full, layout), layout), plain)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_results_are_new_memory_and_inputs_stay(layout: Layout) -> None:
    full = np.arange(15).reshape(3, 5)
    shards = partition(full, layout)
    together = gather(shards, layout)
    for shard in shards:
        shard[...] = 77
    assert np.array_equal(together, full)
    assert np.array_equal(full, np.arange(15).reshape(3, 5))
    fulls = [full.copy() for _ in range(layout.world_size)]
    reduce_scatter(fulls, layout, "mean")
    assert all(np.array_equal(one, full) for one in fulls)


@pytest.mark.parametrize(("reduction", "dtype", "expected"), REDUCED)
def test_reduced(reduction: Literal["sum", "mean"], dtype: str, expected: list[list[int]]) -> None:
    shards = reduce_scatter([ints(1, 2, 3, dtype=dtype), ints(5, 6, 7, dtype=dtype)], FLAT, reduction)
    assert [shard.tolist() for shard in shards] == expected
    assert {shard.dtype for shard in shards} == {np.dtype(dtype)}


def test_one_rank_keeps_negative_zero() -> None:
    (shard,) = reduce_scatter([np.array([-0.0, 1.0])], FlatPadded((2,), 1, 3), "mean")
    assert np.signbit(shard).tolist() == [True, False, False]


def test_poison_in_padding_is_never_seen() -> None:
    layout = FlatPadded((3,), 2, 4)
    shards = partition(np.array([3.0, 4.0, 12.0]), layout, fill=np.nan)
    assert gather(shards, layout).tolist() == [3.0, 4.0, 12.0]
    assert norm_squared(shards, layout) == 169.0
    assert [shard.tolist() for shard in reshard(shards, layout, FLAT)] == [[3.0, 4.0], [12.0, 0.0]]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_norm_of_floats_does_not_depend_on_the_layout(layout: Layout) -> None:
    full = np.random.default_rng(1).standard_normal((3, 5)) * 10.0 ** np.arange(-7, 8).reshape(3, 5)
    whole = FlatPadded((3, 5), 1)
    assert norm_squared(partition(full, layout), layout) == norm_squared(partition(full, whole), whole)


def test_the_norm_is_exact_past_64_bits_and_counts_both_parts() -> None:
    assert norm_squared([ints(2**62, 2**62), ints(1, 99)], FLAT) == 2**125 + 1
    assert norm_squared([ints(255, 255, dtype="u1"), ints(1, 99, dtype="u1")], FLAT) == 130051
    assert norm_squared([np.array([3 + 4j, 1j]), np.array([2, 99j])], FLAT) == 30.0
    assert norm_squared([ints(), ints()], FlatPadded((0,), 2)) == 0


def test_a_layout_of_only_runs_works_like_any_other() -> None:
    full = np.arange(8).reshape(2, 4)
    shards = partition(full, TWICE, fill=9)
    assert [s.tolist() for s in shards] == [[9, 0, 1, 4, 5], [9, 2, 3, 6, 7], [4, 5, 9, 0, 1], [6, 7, 9, 2, 3]]
    assert owners(TWICE, 5) == ((0, 4), (2, 1))
    assert norm_squared(shards, TWICE) == 140
    assert np.array_equal(gather(shards, TWICE), full)
    shards[2][:] = shards[3][:] = 50
    assert np.array_equal(gather(shards, TWICE), full)


def test_the_stride_of_a_single_block_means_nothing() -> None:
    layout = Listed((3,), 3, ((Run(0, 0, 3, 0, 1),),), 3)
    assert owners(layout, 2) == ((0, 2),)
    assert gather(partition(np.arange(3), layout), layout).tolist() == [0, 1, 2]


def test_a_run_that_leaves_the_parameter_is_an_error_and_reads_nothing() -> None:
    outside = Listed((4,), 4, ((Run(0, 2, 2, 2, 2),),), 4)
    with pytest.raises((TypeError, ValueError)):
        partition(np.arange(4), outside)


@pytest.mark.parametrize(("attempt", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refused(attempt: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        attempt()
