"""What the checker is worth: the search, run on implementations with one known mistake each.

A fault model is caught where one of the laws named for it is broken. Cases are the ones that `check` draws. Models that
offer the same operations are asked the same cases, so these are drawn once a seed and shared.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from shardproof.case import Case
from shardproof.case_file import encode
from shardproof.engine import Engine, Verdict
from shardproof.fault_models.registry import FaultModel
from shardproof.finding import size
from shardproof.hunt import Enough, Hunt, Quarry, drive
from shardproof.profiles import Budget

WORLD_SIZES = tuple(range(1, 9))
POOL_SIZE = 8
# An honest operation takes milliseconds here. A rank that waits for a peer that has gone on waits this long, and many do.
_DEADLINE = 2.0
# How many cases are drawn at first; most faults show within few, and drawing costs as much as running.
_FIRST_DRAWS = 64
_MORE = 4


@dataclass(frozen=True, slots=True)
class Caught:
    """What the search says of one fault model.

    cases     how many cases each seed needed, None where the budget was spent without a catch
    law       the law that the smallest case breaks, "" where the fault survived every seed
    smallest  that case, made smaller
    """

    fault: FaultModel
    cases: tuple[int | None, ...]
    law: str = ""
    smallest: Case | None = None
    seconds: float = 0.0

    @property
    def survived(self) -> bool:
        """Whether it was not caught under some seed."""
        return None in self.cases

    @property
    def median(self) -> float:
        """Cases needed under the median seed; one that caught nothing counts as needing endlessly many."""
        return median(float("inf") if count is None else count for count in self.cases)

    @property
    def worst(self) -> float:
        """Cases needed under the worst seed."""
        return max(float("inf") if count is None else count for count in self.cases)

    @property
    def small_enough(self) -> bool:
        """Whether the smallest case is no larger than the row's smallest input."""
        if self.smallest is None:
            return False
        wanted = self.fault.size
        found = (self.smallest.world_size, sum(p.numel for p in self.smallest.parameters))
        return all(a <= b for a, b in zip(found, wanted, strict=True))


@dataclass(slots=True)
class Draws:
    """The cases of each seed, in the order in which they are drawn, each once."""

    budget: Budget
    kept: dict[tuple[object, int], list[Case]] = field(default_factory=dict)

    def cases(self, engine: Engine, seed: int) -> Iterator[Case]:
        """All cases of this seed for what the engine has under test."""
        said = engine.description
        key = (said.offers, said.layouts, said.alignments, said.needs_default_group), seed
        kept = self.kept.setdefault(key, [])
        at = 0
        while at < self.budget.examples:
            if at == len(kept):
                wanted = min(self.budget.examples, max(_FIRST_DRAWS, _MORE * len(kept)))
                kept[:] = _drawn(engine, seed, wanted)
            yield kept[at]
            at += 1


def _drawn(engine: Engine, seed: int, count: int) -> list[Case]:
    """The first `count` different cases of a seed."""
    found: dict[str, Case] = {}

    def first(case: Case) -> None:
        found.setdefault(encode(case), case)
        if len(found) == count:
            raise Enough

    drive(Hunt(first, _never, 0.0), engine.description, WORLD_SIZES, POOL_SIZE, seed)
    return list(found.values())


def _never(quarry: Quarry, case: Case) -> Verdict | None:
    raise AssertionError(f"nothing to make smaller: {quarry}, {case}")


def hunted(engine: Engine, fault: FaultModel, seeds: Sequence[int], draws: Draws) -> Caught:
    """Search for one fault under every seed, and make the smallest catch smaller."""
    began = time.perf_counter()
    engine.switch(fault.target)
    counts: list[int | None] = []
    catches: list[tuple[int, Verdict]] = []
    for seed in seeds:
        found = _first_catch(engine, fault, draws.cases(engine, seed))
        counts.append(found[0] if found else None)
        if found:
            catches.append((seed, found[1]))
    caught = Caught(fault, tuple(counts))
    if catches:
        seed, verdict = min(catches, key=lambda catch: size(catch[1].case))
        smallest = _shrunk(engine, fault, seed, verdict, draws.budget.shrink_seconds)
        caught = replace(caught, law=smallest.broken[0].law, smallest=smallest.case)
    return replace(caught, seconds=time.perf_counter() - began)


def _first_catch(engine: Engine, fault: FaultModel, cases: Iterable[Case]) -> tuple[int, Verdict] | None:
    for count, case in enumerate(cases, start=1):
        verdict = engine.judge(case, only=fault.laws)
        if verdict.broken:
            return count, verdict
    return None


def _shrunk(engine: Engine, fault: FaultModel, seed: int, found: Verdict, seconds: float) -> Verdict:
    """The smallest case that Hypothesis gets to from the case that was found."""
    sought = encode(found.case)
    law = found.broken[0].law

    def first(case: Case) -> tuple[str, Verdict] | None:
        return (law, found) if encode(case) == sought else None

    def smaller(quarry: Quarry, case: Case) -> Verdict | None:
        verdict = engine.judge(case, twice=quarry.twice, only=fault.laws)
        return verdict if any(violation.law == quarry.law for violation in verdict.broken) else None

    hunt = Hunt(first, smaller, seconds)
    drive(hunt, engine.description, WORLD_SIZES, POOL_SIZE, seed)
    return hunt.quarry.smallest if hunt.quarry else found
