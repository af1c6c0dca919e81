"""Every dtype a parameter may have: its size, its bits, and the numbers those bits mean.

NumPy has no bfloat16 and no 8-bit floats. bfloat16 is the upper half of a float32 and float8_e5m2 the upper half of a
float16, so both are read through those; float8_e4m3fn is a table of its 256 values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Kind = Literal["float", "complex", "signed", "unsigned", "bool"]


@dataclass(frozen=True, slots=True)
class Dtype:
    """One dtype.

    `itemsize` is bytes an element, `bits` the unsigned word its raw bits are kept in, `words` how many of them an
    element takes (two for complex: real, imaginary). `digits` is the number of significant binary digits of a float
    (of each part of a complex) or of value bits of an integer.
    """

    name: str
    kind: Kind
    itemsize: int
    words: int
    bits: np.dtype[Any]
    digits: int


def _dtype(name: str, kind: Kind, itemsize: int, digits: int) -> Dtype:
    words = 2 if kind == "complex" else 1
    return Dtype(name, kind, itemsize, words, np.dtype(f"u{itemsize // words}"), digits)


DTYPES: Mapping[str, Dtype] = MappingProxyType(
    {
        dtype.name: dtype
        for dtype in (
            _dtype("float64", "float", 8, 53),
            _dtype("float32", "float", 4, 24),
            _dtype("float16", "float", 2, 11),
            _dtype("bfloat16", "float", 2, 8),
            _dtype("float8_e4m3fn", "float", 1, 4),
            _dtype("float8_e5m2", "float", 1, 3),
            _dtype("complex64", "complex", 8, 24),
            _dtype("complex128", "complex", 16, 53),
            _dtype("int8", "signed", 1, 7),
            _dtype("int16", "signed", 2, 15),
            _dtype("int32", "signed", 4, 31),
            _dtype("int64", "signed", 8, 63),
            _dtype("uint8", "unsigned", 1, 8),
            _dtype("uint16", "unsigned", 2, 16),
            _dtype("uint32", "unsigned", 4, 32),
            _dtype("uint64", "unsigned", 8, 64),
            _dtype("bool", "bool", 1, 1),
        )
    }
)
"""By torch's name for it, without the module."""


def exact_bound(dtype: str) -> int:
    """The largest integer such that it and every smaller one, down to 0, is exact in the dtype.

    2^digits for a float, whose next integer is odd and needs one digit more; the largest value for an integer.
    """
    found = _known(dtype)
    return (1 << found.digits) - (found.kind not in ("float", "complex"))


def encode(integers: npt.ArrayLike, dtype: str) -> Array:
    """The raw bits of these integers in the dtype: words of `DTYPES[dtype].bits`, in the shape that was given.

    `integers` is an array of any integer dtype, or what NumPy reads as one. A complex number is two neighbouring words,
    so its last axis is twice as long (a scalar gives two words). Raises ValueError where an integer is not exact in the
    dtype, or where the input is not of integers.
    """
    found = _known(dtype)
    values = np.asarray(integers)
    if values.size == 0 and values.dtype.kind == "f":  # an empty list has NumPy's default dtype
        values = values.astype(np.int64)
    if values.dtype.kind not in "iub":
        raise ValueError(f"values to encode: observed {values.dtype}, expected integers")
    values = np.atleast_1d(values) if found.words == 2 else values
    with np.errstate(over="ignore"):  # an overflow is found below, as inexact
        bits = np.asarray(_TO_BITS.get(dtype, _native_bits)(values, found))
    _check_exact(values, decode(bits, dtype), dtype)
    return bits


def decode(bits: Array, dtype: str) -> Array:
    """The numbers that raw bits mean: float64, complex128, int64, or uint64 for uint64. Exact for every dtype.

    The reverse of `encode`, but for any bit pattern. Raises ValueError for words of another type.
    """
    found = _known(dtype)
    if bits.dtype != found.bits:
        raise ValueError(f"bits of {dtype}: observed {bits.dtype}, expected {found.bits}")
    with np.errstate(invalid="ignore"):  # widening a signalling NaN raises the flag; the number is NaN all the same
        return np.asarray(_FROM_BITS.get(dtype, _native_numbers)(bits, found))


def _known(dtype: str) -> Dtype:
    if dtype not in DTYPES:
        raise ValueError(f"dtype: observed {dtype!r}, expected one of {', '.join(DTYPES)}")
    return DTYPES[dtype]


def _check_exact(values: Array, numbers: Array, dtype: str) -> None:
    if values.size and max(abs(int(values.min())), abs(int(values.max()))) > 2**53:
        # NumPy would compare in float64, which cannot tell these apart; Python's own comparison is exact.
        values, numbers = values.astype(object), numbers.astype(object)
    wrong = np.flatnonzero(numbers != values)
    if wrong.size:
        raise ValueError(
            f"values to encode: observed {values.reshape(-1)[wrong[0]]}, expected integers exact in {dtype}"
        )


_WIDEST: Mapping[Kind, type[np.generic]] = {
    "float": np.float64,
    "complex": np.complex128,
    "signed": np.int64,
    "unsigned": np.int64,
    "bool": np.int64,
}


def _native_bits(values: Array, dtype: Dtype) -> Array:
    bits: Array = values.astype(dtype.name, order="C").view(dtype.bits)
    return bits


def _native_numbers(bits: Array, dtype: Dtype) -> Array:
    numbers: Array = bits.astype(dtype.bits, order="C", copy=False).view(dtype.name)
    return numbers.astype(np.uint64 if dtype.name == "uint64" else _WIDEST[dtype.kind])


def _upper_half_bits(wide: str) -> Callable[[Array, Dtype], Array]:
    def bits_of(values: Array, dtype: Dtype) -> Array:
        words: Array = values.astype(wide).view(f"u{2 * dtype.itemsize}")
        return np.right_shift(words, 8 * dtype.itemsize).astype(dtype.bits)

    return bits_of


def _upper_half_numbers(wide: str) -> Callable[[Array, Dtype], Array]:
    def numbers_of(bits: Array, dtype: Dtype) -> Array:
        words = np.left_shift(bits.astype(f"u{2 * dtype.itemsize}"), 8 * dtype.itemsize)
        numbers: Array = words.view(wide).astype(np.float64)
        return numbers

    return numbers_of


def _e4m3fn_value(code: int) -> float:
    """S.EEEE.MMM with bias 7 and no infinity (Micikevicius et al. 2022, "FP8 formats for deep learning")."""
    exponent, mantissa = code >> 3 & 0xF, code & 0x7
    if code & 0x7F == 0x7F:
        return np.nan
    size = (mantissa + 8) * 2.0 ** (exponent - 10) if exponent else mantissa * 2.0**-9
    return -size if code & 0x80 else size


_E4M3FN = np.array([_e4m3fn_value(code) for code in range(256)])


def _e4m3fn_bits(values: Array, dtype: Dtype) -> Array:
    sizes = np.abs(values.astype(np.float64))
    codes = np.searchsorted(_E4M3FN[:0x7F], sizes)  # past the largest number comes the code of NaN
    return np.where(values < 0, codes | 0x80, codes).astype(dtype.bits)


def _e4m3fn_numbers(bits: Array, dtype: Dtype) -> Array:  # noqa: ARG001  # every reader has this form
    return np.take(_E4M3FN, bits)


_TO_BITS: Mapping[str, Callable[[Array, Dtype], Array]] = {
    "bfloat16": _upper_half_bits("f4"),
    "float8_e5m2": _upper_half_bits("f2"),
    "float8_e4m3fn": _e4m3fn_bits,
}
_FROM_BITS: Mapping[str, Callable[[Array, Dtype], Array]] = {
    "bfloat16": _upper_half_numbers("f4"),
    "float8_e5m2": _upper_half_numbers("f2"),
    "float8_e4m3fn": _e4m3fn_numbers,
}
