"""Comparing raw bytes. Values are never looked at, so a NaN equals itself and -0.0 is not 0.0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from reference import Layout

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
