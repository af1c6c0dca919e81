"""What tensors are filled with. The same call gives the same bits in the parent and on every rank. NumPy only.

What is only moved carries full-width bit patterns that differ at every position, with NaN payloads, infinities,
denormals and negative zeros among them. What is reduced carries integers so small that every partial sum is exact.
"""

from __future__ import annotations

from hashlib import blake2b
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from reference import DTYPES, encode, exact_bound

Bits = npt.NDArray[np.unsignedinteger[Any]]

# One word in this many is replaced by a special value, where the dtype has any.
_SPECIAL_EVERY = 5
_WIDTHS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
# Per float format: the bit patterns that copying code is most likely to change. NaN payloads first.
_SPECIALS: dict[str, tuple[int, ...]] = {
    "float64": (0x7FF0000000000001, 0xFFF8DEADBEEF0001, 0x8000000000000000, 0x1, 0x7FF0000000000000),
    "float32": (0x7F800001, 0xFFC0BEEF, 0x80000000, 0x1, 0xFF800000),
    "float16": (0x7C01, 0xFE55, 0x8000, 0x1, 0xFC00),
    "bfloat16": (0x7F81, 0xFFD5, 0x8000, 0x1, 0xFF80),
    "float8_e5m2": (0x7D, 0xFF, 0x80, 0x1, 0xFC),
    "float8_e4m3fn": (0x7F, 0xFF, 0x80, 0x1),
}
# SplitMix64's numbers.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIXING = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
_LAST_SHIFT = np.uint64(31)


def moved(seed: int, key: str, shape: tuple[int, ...], dtype: str) -> Bits:
    """Bit patterns for a tensor that is only moved: a flat array of the dtype's words, in row-major order.

    A complex number is two words. `key` names the tensor and its generation; another key gives other bits.
    """
    itemsize = DTYPES[dtype].itemsize
    word, per_element = (itemsize // 2, 2) if dtype.startswith("complex") else (itemsize, 1)
    start = _start(seed, key)
    words = _scramble(start, prod(shape) * per_element).astype(_WIDTHS[word])
    if dtype == "bool":
        return words & np.uint8(1)
    specials = _SPECIALS.get({"complex64": "float32", "complex128": "float64"}.get(dtype, dtype), ())
    if specials:
        places = words[start % _SPECIAL_EVERY :: _SPECIAL_EVERY]
        places[...] = np.resize(np.array(specials, words.dtype), places.size)
    return words


def reduced(seed: int, key: str, rank: int, numel: int, dtype: str, *, parts: int, multiple: int = 1) -> Bits:
    """Integers for a tensor that is summed over `parts` contributions, as `integers` says, encoded in `dtype`."""
    return encode(integers(seed, key, rank, numel, dtype, parts=parts, multiple=multiple), dtype)


def integers(
    seed: int, key: str, rank: int, numel: int, dtype: str, *, parts: int, multiple: int = 1
) -> npt.NDArray[np.int64]:
    """The integers behind `reduced`: different on every rank and position, never zero where the dtype leaves room.

    Any sum of `parts` of them is exact in `dtype`. Each is a multiple of `multiple`, so that a mean is exact too.
    """
    signed = not dtype.startswith(("uint", "bool"))
    bound = max(1, min(exact_bound(dtype), 1 << 20) // (parts * multiple))
    drawn = _scramble(_start(seed, f"{key}@{rank}"), numel)
    magnitude = (drawn % np.uint64(bound)).astype(np.int64) + 1
    sign = np.where(drawn >> np.uint64(63), -1, 1) if signed else 1
    return magnitude * sign * multiple


def as_bytes(bits: Bits) -> bytes:
    """Raw little-endian bytes."""
    return bits.astype(bits.dtype.newbyteorder("<"), copy=False).tobytes()


def _start(seed: int, key: str) -> int:
    """A 64-bit number that depends on every character of the key."""
    return int.from_bytes(blake2b(f"{seed}/{key}".encode(), digest_size=8).digest(), "little")


def _scramble(start: int, count: int) -> npt.NDArray[np.uint64]:
    """`count` well-mixed words: the finaliser of SplitMix64 (Steele, Lea, Flood 2014) over a counter."""
    x = np.arange(1, count + 1, dtype=np.uint64)
    x *= _GOLDEN
    x += np.uint64(start)  # arrays of integers wrap without a word
    for shift, factor in _MIXING:
        x ^= x >> shift
        x *= factor
    x ^= x >> _LAST_SHIFT
    return x
