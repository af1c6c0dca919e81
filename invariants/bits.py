"""Comparing raw bytes. Values are never looked at, so a NaN equals itself and -0.0 is not 0.0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reference import DTYPES, Layout, decode

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two tensors of equally many bytes differ: first wrong element, its bits on both sides, how many."""

    first: int
    observed: str
    expected: str
    count: int


def difference(observed: bytes, expected: bytes, itemsize: int, among: Mask | None = None) -> Difference | None:
    """The first element whose bits differ, None where none does. `among` says which elements count (None: all).

    Both must be of one length, a multiple of `itemsize`.
    """
    if observed == expected:
        return None
    unequal = _elements(observed, itemsize) != _elements(expected, itemsize)
    wrong = unequal.any(axis=1) if among is None else unequal.any(axis=1) & among
    places = np.flatnonzero(wrong)
    if not places.size:
        return None
    first = int(places[0])
    return Difference(first, word(observed, first, itemsize), word(expected, first, itemsize), int(places.size))


def within(observed: bytes, expected: bytes, dtype: str, room: float, among: Mask | None = None) -> bool:
    """Whether every element (`among`: every one that counts) is at most `room` from its counterpart; a NaN is not."""
    word = DTYPES[dtype].bits
    distance = np.abs(decode(np.frombuffer(observed, word), dtype) - decode(np.frombuffer(expected, word), dtype))
    return bool((distance <= room).all() if among is None else (distance <= room)[among].all())


def shows(observed: bytes, other: bytes, expected: bytes, itemsize: int) -> bool:
    """Whether each element that is not the expected one is `other`'s instead."""
    seen = _elements(observed, itemsize)
    wrong = (seen != _elements(expected, itemsize)).any(axis=1)
    return bool(wrong.any()) and bool((seen == _elements(other, itemsize))[wrong].all())


def word(bits: bytes, element: int, itemsize: int) -> str:
    """One element's little-endian bytes as a hexadecimal number."""
    return "0x" + bits[element * itemsize : (element + 1) * itemsize][::-1].hex()


def owned_mask(layout: Layout, rank: int) -> Mask:
    """Which elements of a rank's shard belong to the parameter; the others are padding. One byte an element."""
    mask = np.zeros(layout.shard_numel(rank), np.bool_)
    for run in layout.runs(rank):
        mask[run.local : run.local + run.numel] = True
    return mask


def _elements(bits: bytes, itemsize: int) -> npt.NDArray[Any]:
    return np.frombuffer(bits, np.uint8).reshape(-1, itemsize)
