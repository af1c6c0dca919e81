"""Points at which formulas are tried in plain ints: small sizes, powers of two with their neighbours, last ranks."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import lru_cache

from shardproof.proofs.claims import DOMAINS, Claim

Values = Mapping[str, int]

DRAWS = 4_000
COUNTS = ("numel", "size", "a", "b")
# Where bytes, halves, words and the fractions of float32 and float64 end, and the last that int64 arithmetic bears.
POWERS = (4, 8, 16, 24, 31, 32, 53, 54, 61, 62)
SIZES = (*range(9), *(2**power + step for power in POWERS for step in (-1, 0, 1)))
DIVISORS = (0, 1, 2, 3, 4, 7, 8, 128, 384)


@lru_cache(maxsize=64)
def points(claim: Claim) -> tuple[Values, ...]:
    """Points inside the claim's domains, the same ones every time, by rising sum of their values."""
    chance = random.Random(0)
    drawn = (_point(claim, chance) for _ in range(DRAWS))
    distinct = {tuple(point.values()): point for point in drawn if point}
    return tuple(sorted(distinct.values(), key=lambda point: sum(map(abs, point.values()))))


def _point(claim: Claim, chance: random.Random) -> dict[str, int]:
    """One point; empty where a variable's domain turns out to be."""
    point: dict[str, int] = {}
    for name in claim.domains:
        value = _value(name, point, chance)
        if value is None:
            return {}
        point[name] = value
    return point


def _value(name: str, point: Values, chance: random.Random) -> int | None:
    domain = DOMAINS[name]
    if domain.below is None:
        value: int = chance.choice(SIZES if name in COUNTS else DIVISORS)
        return value if domain.least is None else max(value, domain.least)
    end = point[domain.below]
    return chance.choice((0, min(1, end - 1), end // 2, end - 1)) if end > 0 else None
