"""Sizes and shapes where sharding code goes wrong: near multiples of the world size, 0, 1, primes, powers of two."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

_PRIMES = (2, 3, 5, 7, 11, 13, 31, 61, 127)
_POWERS = (4, 8, 16, 32, 64, 128)
# A buffer of thousands of elements spans pages and messages; one in each table is enough.
_LARGE = (1025, 4097)


@lru_cache(maxsize=256)
def numels(world_size: int) -> tuple[int, ...]:
    """Sizes worth trying at a world size, 1 first (a failing size shrinks towards the front), likely ones repeated."""
    multiples = {k * world_size + step for k in (1, 2, 3, 5) for step in (-1, 0, 1)}
    neighbours = {power + step for power in _POWERS for step in (-1, 0, 1)}
    every = sorted((multiples | neighbours | {*_PRIMES, *_LARGE, 1}) - {0})
    return (1, 0, *every[1:], *sorted(multiples | {1}), 0)


def _factors(n: int) -> tuple[int, int]:
    """Two factors of n, as equal as can be."""
    small = next((low for low in range(int(n**0.5), 0, -1) if n % low == 0), 1)
    return small, n // small


Form = Callable[[int], tuple[int, ...]]

_FORMS: tuple[Form, ...] = (
    lambda n: (n,),
    lambda n: (n, 1),
    lambda n: (1, n),
    lambda n: (n, 2),
    lambda n: (2, n),
    lambda n: (n, 3),
    lambda n: (3, n),
    _factors,
    lambda n: (n, 2, 1),
    lambda n: (2, n, 3),
    lambda n: (3, 2, n),
    lambda n: (1, n, 1, 2),
    lambda n: (n, 2, 1, 3),
    lambda n: (2, 1, 3, n),
    lambda n: (),  # noqa: ARG005  # a scalar has one size only
    lambda n: (),  # noqa: ARG005  # twice, as it is one shape among many
)


@lru_cache(maxsize=16)
def forms(least_rank: int) -> tuple[Form, ...]:
    """Ways to make a shape of about n elements, with at least so many dimensions, the simplest first."""
    return tuple(form for form in _FORMS if len(form(4)) >= least_rank)
