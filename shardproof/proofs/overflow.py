"""From which numel on a 32-bit count or byte offset is too narrow. Exact, by halving; nothing is allocated.

Halving is sound because a longer parameter never has shorter shards (the claim `padded-grows-with-numel`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reference import Chunk, FlatPadded, Layout

WORDS = {"int32": 2**31, "uint32": 2**32}
# Far past every numel that a 32-bit quantity can bear; what is still narrow here does not grow with the parameter.
NEVER = 2**64


@dataclass(frozen=True, slots=True)
class Overflow:
    """The least numel at which `quantity` no longer fits `word`, and its value there; None where it always fits."""

    quantity: str
    word: str
    numel: int | None
    value: int | None


# A layout and bytes an element -> the quantity. Offsets are those of the last rank's slot in a gather buffer.
QUANTITIES: dict[str, Callable[[Layout, int], int]] = {
    "elements sent by a rank": lambda layout, _: layout.padded_numel // layout.world_size,
    "elements gathered": lambda layout, _: layout.padded_numel,
    "bytes gathered": lambda layout, itemsize: layout.padded_numel * itemsize,
    "byte offset of the last slot": lambda layout, itemsize: (
        layout.padded_numel // layout.world_size * (layout.world_size - 1) * itemsize
    ),
}


def flat_padded(world_size: int, alignment: int = 1) -> Callable[[int], Layout]:
    """Flat padded layouts by their numel."""
    return lambda numel: FlatPadded((numel,), world_size, alignment)


def chunked(world_size: int, inner: int = 1, outer: int = 1) -> Callable[[int], Layout]:
    """Layouts of `torch.chunk` along the middle dim of (outer, size, inner), by that dim's size."""
    return lambda size: Chunk((outer, size, inner), world_size, 1)


def overflows(layout_at: Callable[[int], Layout], itemsize: int) -> tuple[Overflow, ...]:
    """For each quantity and 32-bit word the smallest parameter for which it is too narrow."""
    return tuple(
        smallest_overflow(layout_at, itemsize, quantity, word, limit)
        for quantity in QUANTITIES
        for word, limit in WORDS.items()
    )


def smallest_overflow(
    layout_at: Callable[[int], Layout], itemsize: int, quantity: str, word: str, limit: int
) -> Overflow:
    """The first layout in which the quantity reaches `limit`, one more than the word's largest value."""

    def value(size: int) -> int:
        return QUANTITIES[quantity](layout_at(size), itemsize)

    low, high = 0, 1
    while value(high) < limit:
        if high >= NEVER:
            return Overflow(quantity, word, None, None)
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if value(middle) >= limit else (middle, high)
    return Overflow(quantity, word, layout_at(high).numel, value(high))
