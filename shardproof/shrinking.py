"""Makes a case smaller that breaks a law: step by step, keeping that law broken."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardproof.case import Case
from shardproof.case_file import encode
from shardproof.simpler import simpler, size

if TYPE_CHECKING:
    from shardproof.engine import Description
    from shardproof.running import Verdict


@dataclass(slots=True)
class Quarry:
    """The law in question, the verdict that broke it first, and the one with the simplest case so far.

    `tried` holds a verdict for every case that was tried, None where it does not break the law.
    """

    law: str
    found: Verdict
    smallest: Verdict = field(init=False)
    attempts: int = 0
    began: float = field(default_factory=time.perf_counter)
    tried: dict[str, Verdict | None] = field(init=False)

    def __post_init__(self) -> None:
        """Nothing simpler is known yet."""
        self.smallest = self.found
        self.tried = {encode(self.found.case): self.found}

    @property
    def twice(self) -> bool:
        """A law that compares two runs is broken again only where the smaller case runs twice as well."""
        return self.found.evidence.second is not None

    def still_broken(self, case: Case, judge: Callable[[Quarry, Case], Verdict | None]) -> bool:
        """Whether the case breaks the law, too. Different steps may lead to the same case, which then is run once."""
        key = encode(case)
        if key not in self.tried:
            self.attempts += 1
            self.tried[key] = judge(self, case)
        verdict = self.tried[key]
        if verdict is not None and size(case) < size(self.smallest.case):
            self.smallest = verdict
        return verdict is not None


def simplify(
    quarry: Quarry,
    world_sizes: Collection[int],
    description: Description,
    judge: Callable[[Quarry, Case], Verdict | None],
    seconds: float,
) -> None:
    """From the simplest case so far, until no single step leads to a simpler one or time is up.

    `judge` gives the verdict of a case where it breaks the quarry's law, else None. `seconds` count from when the
    quarry was found.
    """
    left = True
    while left:
        left = False
        for case in simpler(quarry.smallest.case, world_sizes, description.layouts, description.specs):
            if time.perf_counter() - quarry.began > seconds:
                return
            if quarry.still_broken(case, judge):
                left = True
                break
