"""Where bits differ: found by bits alone, whatever they mean."""

from __future__ import annotations

import numpy as np
import pytest

from invariants.bits import difference, owned_mask, within, word
from reference import Chunk, FlatPadded, encode

# float32 bit patterns that == would confuse: a NaN and the same NaN, two NaNs, the two zeros.
PAIRS = ((0x7FC00000, 0x7FC00000, True), (0x7F800001, 0x7FC00000, False), (0x80000000, 0, False))


@pytest.mark.parametrize(("one", "other", "same"), PAIRS)
def test_bits_are_compared_and_not_values(one: int, other: int, same: bool) -> None:
    found = difference(one.to_bytes(4, "little"), other.to_bytes(4, "little"), 4)
    assert (found is None) == same
    assert found is None or (found.observed, found.expected) == (f"0x{one:08x}", f"0x{other:08x}")


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("place", [0, 3, 6])
def test_the_first_wrong_element_is_found(itemsize: int, place: int) -> None:
    expected = bytes(range(7 * itemsize))
    observed = bytearray(expected)
    observed[(place + 1) * itemsize - 1] ^= 0x80
    observed[-1] ^= 0x40
    found = difference(bytes(observed), expected, itemsize)
    assert found is not None
    assert (found.first, found.count) == (place, 2 - (place == 6))
    assert found.expected == word(expected, place, itemsize)


def test_only_the_elements_asked_for_count() -> None:
    mask = owned_mask(FlatPadded((5,), 2), 1)
    assert mask.tolist() == [True, True, False]
    assert difference(bytes([1, 2, 9]), bytes([1, 2, 0]), 1, mask) is None
    found = difference(bytes([1, 2, 9]), bytes([1, 2, 0]), 1, ~mask)
    assert found is not None
    assert found.first == 2


def test_nothing_of_a_chunk_is_padding() -> None:
    assert owned_mask(Chunk((3, 5), 2, 1), 0).all()


def test_a_word_reads_as_a_number() -> None:
    assert word(np.array([1, 0xBEEF], "<u4").tobytes(), 1, 4) == "0x0000beef"


def test_within_is_up_to_the_bound_and_asks_about_some_elements_only() -> None:
    seen, expected = (encode(values, "bfloat16").tobytes() for values in ([1, 2, 9], [1, 4, 0]))
    first_two = np.array([True, True, False])
    assert within(seen, expected, "bfloat16", 2, first_two)
    assert not within(seen, expected, "bfloat16", 1.5, first_two)
    assert within(seen, expected, "bfloat16", 9)
    assert not within(seen, expected, "bfloat16", 8)
