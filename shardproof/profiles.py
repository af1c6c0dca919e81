"""How much a run may cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """A search ends after `examples` cases or after `seconds`, whichever is first.

    `shrink_seconds` bound the time for making one law's case smaller; they come on top.
    """

    examples: int
    seconds: float
    shrink_seconds: float


PROFILES: Mapping[str, Budget] = {
    "smoke": Budget(examples=300, seconds=3, shrink_seconds=4),
    "default": Budget(examples=1500, seconds=30, shrink_seconds=20),
    "nightly": Budget(examples=200_000, seconds=3600, shrink_seconds=300),
}
