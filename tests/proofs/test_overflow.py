"""From which numel on 32 bits are too few: against plain arithmetic written a second time, and against counting up."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from reference import Layout
from shardproof.proofs.overflow import QUANTITIES, WORDS, chunked, flat_padded, overflows, smallest_overflow

SENT, GATHERED, BYTES, OFFSET = (
    "elements sent by a rank",
    "elements gathered",
    "bytes gathered",
    "byte offset of the last slot",
)


def sent(numel: int, world_size: int, alignment: int) -> int:
    """Counts up in alignments until the shards have room; for small numels."""
    return next(size for size in count(0, alignment) if size * world_size >= numel)


def again(quantity: str, shard: int, world_size: int, itemsize: int) -> int:
    """The quantity of a flat layout once more, from what each rank sends, W and bytes an element."""
    gathered = shard * world_size
    return {
        SENT: shard,
        GATHERED: gathered,
        BYTES: gathered * itemsize,
        OFFSET: (gathered - shard) * itemsize,
    }[quantity]


# World size, alignment, bytes an element.
FLAT = [(1, 1, 1), (2, 1, 4), (3, 1, 2), (4, 16, 2), (7, 5, 8), (8, 1, 16)]

# World size, alignment, bytes an element, quantity, word, numel: all written out by hand.
KNOWN = [
    (1, 1, 4, GATHERED, "int32", 2**31),
    (2, 1, 4, GATHERED, "int32", 2**31 - 1),
    (8, 1, 4, GATHERED, "uint32", 2**32 - 7),
    (8, 1, 2, BYTES, "uint32", 2**31 - 7),
    (2, 1, 4, BYTES, "uint32", 2**30 - 1),
    (2, 1, 1, BYTES, "uint32", 2**32 - 1),
    (2, 128, 4, BYTES, "uint32", 2**30 - 255),
    (4, 1, 2, SENT, "int32", 4 * (2**31 - 1) + 1),
    (2, 1, 4, OFFSET, "int32", 2 * (2**29 - 1) + 1),
    (1, 1, 4, OFFSET, "int32", None),
]


@pytest.mark.parametrize(("world_size", "alignment", "itemsize"), FLAT)
@pytest.mark.parametrize("quantity", QUANTITIES)
def test_small_limits_against_counting_up(quantity: str, world_size: int, alignment: int, itemsize: int) -> None:
    for limit in (1, 2, 3, 17, 64, 255):
        found = smallest_overflow(flat_padded(world_size, alignment), itemsize, quantity, "word", limit)
        if world_size == 1 and quantity == OFFSET:
            assert (found.numel, found.value) == (None, None)
            continue

        def value(numel: int) -> int:
            return again(quantity, sent(numel, world_size, alignment), world_size, itemsize)

        first = next(numel for numel in count() if value(numel) >= limit)
        assert (found.numel, found.value) == (first, value(first))


@pytest.mark.parametrize(("world_size", "alignment", "itemsize", "quantity", "word", "numel"), KNOWN)
def test_known_numels(
    world_size: int, alignment: int, itemsize: int, quantity: str, word: str, numel: int | None
) -> None:
    found = smallest_overflow(flat_padded(world_size, alignment), itemsize, quantity, word, WORDS[word])
    assert (found.quantity, found.word, found.numel) == (quantity, word, numel)


@pytest.mark.parametrize(
    ("layout_at", "step"),
    [
        *((flat_padded(world_size, alignment), 1) for world_size, alignment, _ in FLAT),
        (chunked(8, 4096), 4096),
        (chunked(3, 5, 7), 35),
    ],
)
def test_one_step_less_still_fits(layout_at: Callable[[int], Layout], step: int) -> None:
    found = overflows(layout_at, 2)
    assert [(one.quantity, one.word) for one in found] == [(name, word) for name in QUANTITIES for word in WORDS]
    for one in found:
        if one.numel is None or one.value is None:
            assert layout_at(1).world_size == 1
            assert one.quantity == OFFSET
            continue
        limit, size = WORDS[one.word], one.numel // step
        assert layout_at(size).numel == one.numel
        assert QUANTITIES[one.quantity](layout_at(size), 2) == one.value >= limit
        assert QUANTITIES[one.quantity](layout_at(size - 1), 2) < limit


def test_chunks_of_rows() -> None:
    """W = 8 over rows of 4096: 8 * ceil(rows / 8) * 4096 elements pass 2^31 from row 8 * 65535 + 1 on."""
    found = smallest_overflow(chunked(8, 4096), 2, GATHERED, "int32", WORDS["int32"])
    assert (found.numel, found.value) == ((8 * 65535 + 1) * 4096, 2**31)
