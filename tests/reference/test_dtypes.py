"""Every dtype's bits and numbers against torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import DTYPES, decode, encode, exact_bound

NAMES = sorted(DTYPES)
BOUNDS = {
    "float64": 2**53,
    "float32": 2**24,
    "float16": 2**11,
    "bfloat16": 2**8,
    "float8_e4m3fn": 16,
    "float8_e5m2": 8,
    "complex64": 2**24,
    "complex128": 2**53,
    "int8": 127,
    "int16": 2**15 - 1,
    "int32": 2**31 - 1,
    "int64": 2**63 - 1,
    "uint8": 255,
    "uint16": 2**16 - 1,
    "uint32": 2**32 - 1,
    "uint64": 2**64 - 1,
    "bool": 1,
}
SMALL = [name for name in NAMES if DTYPES[name].itemsize <= 2]
# Not exact although within range, or out of range.
INEXACT = [
    ("float8_e4m3fn", 17),
    ("float8_e4m3fn", 449),
    ("float8_e4m3fn", 512),
    ("float8_e5m2", 9),
    ("float8_e5m2", 10**6),
    ("bfloat16", 257),
    ("float16", 2049),
    ("float16", 10**6),
    ("float32", 2**24 + 1),
    ("float64", 2**53 + 1),
    ("complex64", -(2**24) - 1),
    ("int8", 128),
    ("int8", -129),
    ("uint8", -1),
    ("uint64", -1),
    ("int64", 2**63),
    ("bool", 2),
    ("bool", -1),
]
EXACT_PAST_THE_BOUND = [("float8_e4m3fn", -448), ("float8_e5m2", 57344), ("bfloat16", 2**40), ("float64", 2**63)]


def torch_of(bits: np.ndarray[Any, Any], name: str) -> torch.Tensor:
    """The same bits as torch reads them."""
    tensor: torch.Tensor = torch.from_numpy(bits.reshape(-1).view(np.uint8).copy()).view(getattr(torch, name))
    return tensor


def widened(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    if tensor.is_complex():
        return tensor.to(torch.complex128).numpy()
    if tensor.is_floating_point():
        return tensor.to(torch.float64).numpy()
    return tensor.numpy() if tensor.dtype == torch.uint64 else tensor.to(torch.int64).numpy()


def patterns(name: str) -> np.ndarray[Any, Any]:
    """Every word of a dtype of up to two bytes; else random ones, and those that floats treat as special."""
    dtype = DTYPES[name]
    if name == "bool":
        return np.array([0, 1], np.uint8)
    if dtype.itemsize <= 2:
        return np.arange(2 ** (8 * dtype.itemsize), dtype=np.uint32).astype(dtype.bits)
    ones = np.iinfo(dtype.bits).max
    special = [0, 1, ones, ones >> 1, (ones >> 1) + 1, 0x7F800001, 0xFF800000, 0x7F800000]
    drawn = np.random.default_rng(3).integers(0, ones, 4096, dtype.bits, endpoint=True)
    return np.concatenate([np.array(special, np.uint64).astype(dtype.bits), drawn])


def test_these_are_all_dtypes_and_bounds() -> None:
    assert {name: exact_bound(name) for name in NAMES} == BOUNDS


@pytest.mark.parametrize("name", NAMES)
def test_sizes_are_those_of_torch(name: str) -> None:
    dtype = DTYPES[name]
    assert dtype.name == name
    assert dtype.itemsize == getattr(torch, name).itemsize == dtype.words * dtype.bits.itemsize
    assert dtype.bits.kind == "u"


@pytest.mark.parametrize("name", NAMES)
def test_every_pattern_decodes_to_the_number_torch_reads(name: str) -> None:
    bits = patterns(name)
    numbers, seen = decode(bits, name), widened(torch_of(bits, name))
    assert numbers.dtype == seen.dtype
    assert np.array_equal(numbers, seen, equal_nan=numbers.dtype.kind in "fc")
    if numbers.dtype.kind == "f":
        defined = ~np.isnan(seen)
        assert np.array_equal(np.signbit(numbers)[defined], np.signbit(seen)[defined])


@pytest.mark.parametrize("name", NAMES)
def test_every_integer_up_to_the_bound_is_exact_and_the_next_is_not(name: str) -> None:
    bound = exact_bound(name)
    values = np.arange(min(bound, 300) + 1, dtype=np.int64)
    assert np.array_equal(decode(encode(values, name), name), values)
    assert decode(encode(np.array([bound], np.uint64), name), name)[0] == bound
    if bound < 2**64 - 1:
        with pytest.raises(
            ValueError, match=f"^values to encode: observed {bound + 1}, expected integers exact in {name}$"
        ):
            encode(np.array([0, bound + 1], np.uint64), name)


@pytest.mark.parametrize("name", NAMES)
def test_encoded_bits_are_those_of_torch(name: str) -> None:
    low = -min(exact_bound(name), 300) if DTYPES[name].kind in ("float", "complex", "signed") else 0
    values = np.arange(low, min(exact_bound(name), 300) + 1)
    bits = encode(values, name)
    expected = torch.from_numpy(values).to(getattr(torch, name)).view(torch.uint8).numpy()
    assert bits.dtype == DTYPES[name].bits
    assert bits.view(np.uint8).tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0), (2, 3)], ids=str)
def test_shapes_are_kept_and_complex_takes_two_words(name: str, shape: tuple[int, ...]) -> None:
    values = np.ones(shape, np.int8)
    bits = encode(values, name)
    if DTYPES[name].words == 1:
        assert bits.shape == decode(bits, name).shape == shape
    else:
        assert bits.shape == (*shape[:-1], 2 * (shape[-1] if shape else 1))
        assert decode(bits, name).shape == (shape or (1,))
    assert decode(bits, name).sum() == values.size


@pytest.mark.parametrize("name", NAMES)
def test_memory_order_does_not_matter(name: str) -> None:
    values = np.arange(6).reshape(2, 3) % 2
    bits = encode(np.asfortranarray(values), name)
    assert np.array_equal(bits, encode(values, name))
    assert np.array_equal(decode(np.asfortranarray(bits), name), values)


@pytest.mark.parametrize(("name", "value"), INEXACT)
def test_what_is_not_exact_is_refused(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"^values to encode: observed {value}, expected integers exact in {name}$"):
        encode(np.array([value]), name)


@pytest.mark.parametrize(("name", "value"), EXACT_PAST_THE_BOUND)
def test_what_is_exact_past_the_bound_is_taken(name: str, value: int) -> None:
    assert decode(encode(np.array([value]), name), name).tolist() == [value]


@pytest.mark.parametrize("name", ["float64", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float32", "complex64"])
@given(value=st.integers(-(2**63), 2**63 - 1))
@settings(max_examples=80, deadline=None)
def test_encode_is_exact_or_refuses(name: str, value: int) -> None:
    try:
        bits = encode(np.array([value]), name)
    except ValueError:
        stored = torch.tensor([value]).to(getattr(torch, name))
        number = widened(stored)[0].real
        assert not np.isfinite(number) or int(number) != value
    else:
        assert int(decode(bits, name)[0].real) == value


def test_an_empty_list_is_integers_and_floats_are_refused() -> None:
    assert encode([], "float32").size == 0
    assert encode([True, False], "bfloat16").tolist() == [0x3F80, 0]
    with pytest.raises(ValueError, match=r"^values to encode: observed float64, expected integers$"):
        encode([0.5], "float32")


def test_unknown_names_and_other_words_are_refused() -> None:
    with pytest.raises(ValueError, match=f"^dtype: observed 'float12', expected one of {', '.join(DTYPES)}$"):
        exact_bound("float12")
    with pytest.raises(ValueError, match=r"^bits of bfloat16: observed uint32, expected uint16$"):
        decode(np.zeros(3, np.uint32), "bfloat16")
