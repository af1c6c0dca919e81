"""Hypothesis, driven: it owns the draws, and says which smaller cases to try once a law was broken.

One hunt draws until some law is broken that was not known to be, then keeps that law while the case gets smaller.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shardproof.case import Case
from shardproof.case_file import encode
from shardproof.simpler import simpler, size

if TYPE_CHECKING:
    from shardproof.engine import Description, Verdict


class Enough(BaseException):
    """Leaves Hypothesis at once, from inside a case: the budget is spent, or (`cause`) the harness itself failed.

    Not an Exception, which Hypothesis would take for a failing case and make smaller.
    """

    def __init__(self, cause: Exception | None = None) -> None:
        """Keep the cause, which `drive` raises again."""
        super().__init__()
        self.cause = cause


class BrokenLaw(Exception):  # noqa: N818  # a signal to Hypothesis
    """The case breaks the law in question."""


@dataclass(slots=True)
class Quarry:
    """The law that a hunt is after, the verdict that broke it first, and the one with the simplest case so far.

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
        """Whether the case breaks the law, too. Different choices may give the same case, which then is run once."""
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
    """Step by step from the smallest case so far, until no single step leads to a simpler one or time is up.

    `seconds` count from when the quarry was found.
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


@dataclass(slots=True)
class Hunt:
    """What Hypothesis calls with every case.

    first    judges a drawn case: the law to go after and the verdict that breaks it, None where there is none.
             Raises Enough where no more should be drawn
    smaller  judges a smaller case: the verdict where it breaks the quarry's law, else None
    """

    first: Callable[[Case], tuple[str, Verdict] | None]
    smaller: Callable[[Quarry, Case], Verdict | None]
    shrink_seconds: float
    quarry: Quarry | None = None

    def __call__(self, case: Case) -> None:
        """Raise BrokenLaw where the case breaks the law in question."""
        try:
            broken = self._still_broken(self.quarry, case) if self.quarry else self._found(case)
        except Exception as error:
            raise Enough(error) from error
        if broken:
            raise BrokenLaw

    def _found(self, case: Case) -> bool:
        found = self.first(case)
        self.quarry = Quarry(*found) if found else None
        return found is not None

    def _still_broken(self, quarry: Quarry, case: Case) -> bool:
        if time.perf_counter() - quarry.began > self.shrink_seconds:
            raise Enough
        return quarry.still_broken(case, self.smaller)


def drive(hunt: Hunt, description: Description, world_sizes: Collection[int], pool_size: int, seed: int) -> None:
    """Let Hypothesis draw cases and hunt, until it or the hunt has had enough.

    Raises what the hunt raised within Enough.
    """
    from hypothesis import HealthCheck, Phase, Verbosity, given, settings
    from hypothesis import seed as seeded
    from hypothesis.errors import Flaky

    from shardproof.strategies import cases

    @seeded(seed)
    @settings(
        max_examples=10**9,  # the hunt itself says when it is enough
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        print_blob=False,
    )
    @given(cases(description, world_sizes, pool_size=pool_size))
    def every(case: Case) -> None:
        hunt(case)

    try:
        every()
    except Enough as enough:
        if enough.cause is not None:
            raise enough.cause from None
    except (BrokenLaw, Flaky):
        pass  # the hunt knows
