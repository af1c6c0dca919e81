"""What the checker is worth: the search, run on implementations with one known mistake each.

A fault model is caught where one of the laws named for it is broken. The cases are those that `check` draws. Models
that offer the same are asked the same cases, so these are drawn once a seed and shared.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf
from multiprocessing import get_context
from multiprocessing.util import Finalize
from statistics import median

from shardproof.ahead import Ahead
from shardproof.always import AT_ONCE, always
from shardproof.case import Case
from shardproof.case_file import encode
from shardproof.drawing import Enough, draw
from shardproof.engine import Engine
from shardproof.fault_models.registry import CORRECT, FaultModel
from shardproof.profiles import PROFILES, Budget
from shardproof.running import Verdict
from shardproof.shrinking import Quarry, simplify
from shardproof.simpler import size

WORLD_SIZES = tuple(range(1, 9))
POOL_SIZE = max(WORLD_SIZES)
# As many cases as `check` tries by default, and less time to make one smaller: there are many faults.
BUDGET = replace(PROFILES["default"], shrink_seconds=4)
# Seconds that a rank may wait for a peer that went on without it, or that raised. Many do: that is their fault.
_DEADLINE, _GRACE = 2.0, 0.25
# Each process has a pool of ranks, which sleep in a barrier most of the time.
_MOST_WORKERS = 4
# Most faults show within few cases, and drawing one costs about as much as running it.
_FIRST_DRAWS, _MORE = 64, 4
# The only law that needs a case to be run twice.
_COMPARES_RUNS = "padding-unobservable"


@dataclass(frozen=True, slots=True)
class Caught:
    """What the search says of one fault model.

    cases     how many cases each seed needed; None: the budget was spent without a catch
    law       the law that the smallest case breaks; "" where no seed caught it
    smallest  that case, made smaller
    """

    fault: FaultModel
    cases: tuple[int | None, ...]
    law: str = ""
    smallest: Case | None = None
    seconds: float = 0.0

    @property
    def survived(self) -> bool:
        """Whether some seed did not catch it."""
        return None in self.cases

    @property
    def median(self) -> float:
        """Cases needed under the median seed, where a seed that caught nothing needs infinitely many."""
        return median(inf if count is None else count for count in self.cases)

    @property
    def worst(self) -> float:
        """Cases needed under the worst seed."""
        return max(inf if count is None else count for count in self.cases)

    @property
    def small_enough(self) -> bool:
        """Whether the smallest case is no larger than the row's smallest input, in ranks and in elements."""
        if self.smallest is None:
            return False
        numel = sum(parameter.numel for parameter in self.smallest.parameters)
        return self.smallest.world_size <= self.fault.world_size and numel <= self.fault.numel


@dataclass(slots=True)
class Draws:
    """Every seed's cases, in the order in which they are drawn, each once."""

    budget: Budget = BUDGET
    kept: dict[tuple[object, int], list[Case]] = field(default_factory=dict)

    def cases(self, engine: Engine, seed: int) -> Iterator[Case]:
        """As many as the budget allows for what the engine has under test, and those always tried between them."""
        return islice(self._with_always(engine, seed), self.budget.examples)

    def _with_always(self, engine: Engine, seed: int) -> Iterator[Case]:
        between = iter(always(engine.description, WORLD_SIZES))
        for case in self._drawn(engine, seed):
            yield case
            yield from islice(between, AT_ONCE)

    def _drawn(self, engine: Engine, seed: int) -> Iterator[Case]:
        said = engine.description
        key = (said.form, said.offers, said.layouts, said.alignments, said.specs), seed
        kept = self.kept.setdefault(key, [])
        for at in range(self.budget.examples):
            if at == len(kept):
                kept[:] = _drawn(engine, seed, min(self.budget.examples, max(_FIRST_DRAWS, _MORE * at)))
            if at == len(kept):
                return
            yield kept[at]


def hunted(engine: Engine, fault: FaultModel, seeds: Sequence[int], draws: Draws) -> Caught:
    """Search for one fault under every seed, and make the smallest catch smaller."""
    began = time.perf_counter()
    shrink_seconds = draws.budget.shrink_seconds
    engine.switch(fault.target)
    counts: list[int | None] = []
    catches: list[Verdict] = []
    for seed in seeds:
        count, verdict = _first_catch(engine, fault, draws.cases(engine, seed))
        counts.append(count)
        if verdict is not None:
            catches.append(verdict)
    caught = Caught(fault, tuple(counts))
    if catches:
        smallest = _smallest(engine, fault, min(catches, key=lambda verdict: size(verdict.case)), shrink_seconds)
        caught = replace(caught, law=smallest.broken[0].law, smallest=smallest.case)
    return replace(caught, seconds=time.perf_counter() - began)


def hunt_all(faults: Iterable[FaultModel], seeds: Sequence[int], workers: int | None = None) -> Iterator[Caught]:
    """Search for every fault, several at a time, each as it is done. Raises what a search raised."""
    count = workers or max(1, min(_MOST_WORKERS, len(os.sched_getaffinity(0))))
    with ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_open) as pool:
        answers = [pool.submit(_hunted_here, fault, tuple(seeds)) for fault in faults]
        try:
            for answer in as_completed(answers):
                yield answer.result()
        finally:
            pool.shutdown(cancel_futures=True)


# What a worker process keeps from one fault to the next.
_here: list[tuple[Engine, Draws]] = []


def _open() -> None:
    engine = Engine(CORRECT[0], pool_size=POOL_SIZE, deadline=_DEADLINE, grace=_GRACE)
    _here.append((engine, Draws()))
    Finalize(engine, engine.close, exitpriority=10)


def _hunted_here(fault: FaultModel, seeds: Sequence[int]) -> Caught:
    engine, draws = _here[0]
    return hunted(engine, fault, seeds, draws)


def _first_catch(engine: Engine, fault: FaultModel, cases: Iterable[Case]) -> tuple[int | None, Verdict | None]:
    ahead = Ahead(engine, fault.laws, twice=None if _COMPARES_RUNS in fault.laws else False)
    for count, verdict in enumerate(ahead.verdicts(cases), start=1):
        if verdict.broken:
            ahead.rest()
            return count, verdict
    return None, None


def _smallest(engine: Engine, fault: FaultModel, found: Verdict, seconds: float) -> Verdict:
    """The simplest case that steps lead to. The law may become another one of those named for the fault."""
    quarry = Quarry(found.broken[0].law, found)

    def smaller(quarry: Quarry, case: Case) -> Verdict | None:
        verdict = engine.judge(case, twice=quarry.twice, only=fault.laws)
        return verdict if verdict.broken else None

    simplify(quarry, WORLD_SIZES, engine.description, smaller, seconds)
    return quarry.smallest


def _drawn(engine: Engine, seed: int, count: int) -> list[Case]:
    """The first `count` different cases of a seed, or all that there are."""
    found: dict[str, Case] = {}

    def take(case: Case) -> None:
        found.setdefault(encode(case), case)
        if len(found) == count:
            raise Enough

    draw(take, engine.description, WORLD_SIZES, POOL_SIZE, seed)
    return list(found.values())
