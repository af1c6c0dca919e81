from __future__ import annotations

import numpy as np
import pytest

from reference import DTYPES, decode, exact_bound
from shardproof.values import integers, moved, reduced

FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e5m2")
SUMMED = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8")


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("shape", [(), (0, 3), (7,), (3, 5)])
def test_moved_has_the_size_of_the_tensor(dtype: str, shape: tuple[int, ...]) -> None:
    assert moved(1, "w", shape, dtype).nbytes == int(np.prod(shape)) * DTYPES[dtype].itemsize


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool" and DTYPES[d].itemsize >= 4])
def test_moved_differs_at_every_position_and_for_every_key(dtype: str) -> None:
    words = moved(1, "w#registered", (64,), dtype)
    ordinary = np.delete(words, np.arange(words.size)[np.isin(words, _repeated(words))])
    assert ordinary.size >= words.size * 3 // 4
    assert not np.array_equal(words, moved(1, "w#2", (64,), dtype))
    assert not np.array_equal(words, moved(2, "w#registered", (64,), dtype))


def _repeated(words: np.ndarray) -> np.ndarray:
    values, counts = np.unique(words, return_counts=True)
    return values[counts > 1]


@pytest.mark.parametrize("dtype", FLOATS)
def test_moved_carries_nan_payloads_infinities_negative_zeros_and_denormals(dtype: str) -> None:
    values = decode(moved(3, "w", (64,), dtype), dtype)
    assert np.isnan(values).any()
    assert np.isinf(values).any()
    assert (np.signbit(values) & (values == 0)).any()
    smallest = np.abs(values[np.isfinite(values) & (values != 0)]).min()
    assert smallest < 2.0 ** {"float64": -1022, "float32": -126, "float16": -14, "bfloat16": -126}.get(dtype, -14)


def test_bools_are_zero_or_one() -> None:
    assert set(moved(1, "w", (64,), "bool").tolist()) == {0, 1}


@pytest.mark.parametrize("dtype", SUMMED)
@pytest.mark.parametrize("parts", [1, 2, 6, 24])
def test_sums_of_reduced_values_are_exact_in_the_dtype(dtype: str, parts: int) -> None:
    total = sum(integers(1, "g", rank, 50, dtype, parts=parts) for rank in range(parts))
    assert np.abs(total).max() <= exact_bound(dtype) or parts > exact_bound(dtype)
    for rank in range(parts):
        bits = reduced(1, "g", rank, 50, dtype, parts=parts)
        assert np.array_equal(decode(bits, dtype), integers(1, "g", rank, 50, dtype, parts=parts))


def test_integers_for_a_mean_are_multiples_and_never_zero() -> None:
    drawn = integers(1, "g", 0, 100, "bfloat16", parts=3, multiple=3)
    assert not (drawn % 3).any()
    assert drawn.all()


def test_ranks_and_positions_differ() -> None:
    ranks = [integers(1, "g", rank, 200, "float32", parts=4) for rank in range(4)]
    assert len({drawn.tobytes() for drawn in ranks}) == 4
    assert len(np.unique(ranks[0])) > 190
