"""Looks for the smallest case that breaks each law.

Whole programs go to the ranks, which never draw: with a driver on every rank, the first failure that one rank sees
would put all later draws out of step. Where a law is broken that was not known to be, drawing pauses until its case is
as small as it gets, and goes on from there.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol

from invariants import Law
from shardproof.ahead import Ahead, Runner
from shardproof.always import AT_ONCE, always
from shardproof.case import Case
from shardproof.case_file import encode
from shardproof.deviations import Deviation
from shardproof.drawing import Enough, draw
from shardproof.events import (
    CaseJudged,
    Event,
    FailureFound,
    Listener,
    PinnedJudged,
    RunFinished,
    RunStarted,
    Shrinking,
)
from shardproof.failure import failure_of
from shardproof.features import required
from shardproof.finding import Finding, Replays
from shardproof.outcome import LawResult, PinnedResult, RunResult, Timings
from shardproof.profiles import PROFILES, Budget
from shardproof.results import Destination
from shardproof.shrinking import Quarry, simplify
from shardproof.simpler import size
from shardproof.tally import Tally

if TYPE_CHECKING:
    from shardproof.engine import Description
    from shardproof.running import Verdict

# A smallest case that does not show its law on fresh ranks is tried so often in all.
_REPLAYS = 5
# How many times its seconds a run may take where a required kind of case was not drawn in them.
_PATIENCE = 10


class Judge(Runner, Protocol):
    """What a search needs of an engine."""

    @property
    def description(self) -> Description:
        """What is under test."""

    def laws(self) -> tuple[Law[Any], ...]:
        """The laws that apply."""

    def judge(self, case: Case, *, twice: bool | None = None, only: Sequence[str] = ()) -> Verdict:
        """Run one case and judge it; never between another's `begin` and `wait`."""

    def renew(self) -> None:
        """Go on with fresh ranks."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to search.

    world_sizes  that cases have; `pool_size` ranks are there
    only         slugs of the laws to judge (none: all)
    cases        judged in place of drawn ones, and not made smaller
    destination  where results will be written, so that a failure can say how it is replayed
    """

    world_sizes: tuple[int, ...] = tuple(range(1, 9))
    pool_size: int = 8
    device: str = "cpu"
    seed: int = 0
    budget: Budget = PROFILES["default"]
    only: tuple[str, ...] = ()
    deviations: tuple[Deviation, ...] = ()
    cases: Iterable[Case] | None = None
    destination: Destination | None = None


def search(judge: Judge, plan: Plan, listeners: Sequence[Listener] = ()) -> RunResult:
    """Run the plan; `listeners` hear of every case. What the engine raises comes out unchanged."""
    return _Run(judge, plan, listeners).run()


@dataclass(slots=True)
class _Run:
    judge: Judge
    plan: Plan
    listeners: Sequence[Listener]
    tally: Tally = field(init=False)
    findings: dict[str, Finding] = field(default_factory=dict)
    # Digests of the cases drawn so far; for every broken law that is not reported yet, the smallest verdict.
    seen: set[bytes] = field(default_factory=set)
    always: list[Case] = field(init=False)
    ahead: Ahead = field(init=False)
    pending: dict[str, Verdict] = field(default_factory=dict)
    shrink_cases: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: {"shrinking": 0.0, "replaying": 0.0})
    began: float = field(default_factory=time.perf_counter)

    def __post_init__(self) -> None:
        laws = [law for law in self.judge.laws() if not self.plan.only or law.slug in self.plan.only]
        known = [deviation for deviation in self.plan.deviations if self._applies(deviation)]
        self.tally = Tally(laws, known, self.plan.device)
        self.always = list(reversed(always(self.judge.description, self.plan.world_sizes)))
        self.ahead = Ahead(self.judge, self.plan.only)

    def run(self) -> RunResult:
        plan = self.plan
        slugs = tuple(self.tally.results)
        self._say(RunStarted(self.judge.description, plan.device, plan.world_sizes, plan.seed, plan.budget, slugs))
        pinned = tuple(self._pinned(deviation) for deviation in plan.deviations)
        if plan.cases is None:
            draw(self._drawn, self.judge.description, plan.world_sizes, plan.pool_size, plan.seed)
        else:
            for case in plan.cases:
                self._put(case)
        self._rest()
        result = self._result(pinned)
        self._say(RunFinished(result))
        return result

    def _say(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - began

    def _applies(self, deviation: Deviation) -> bool:
        return deviation.applies(self.plan.device, self.judge.description.torch)

    def _pinned(self, deviation: Deviation) -> PinnedResult:
        """Run a known deviation's own case, unless its law is not asked for or it is about something else."""
        if deviation.law not in self.tally.results or not self._applies(deviation):
            return PinnedResult(deviation, None)
        verdict = self.judge.judge(deviation.case, twice=True, only=self.plan.only)
        deviates = any(deviation.covers(verdict.case, v, self.plan.device) for v in verdict.broken)
        self._say(PinnedJudged(deviation, deviates))
        return PinnedResult(deviation, deviates)

    def _aside(self) -> float:
        """Seconds that went into laws already known to be broken."""
        return self.seconds["shrinking"] + self.seconds["replaying"]

    def _report_pending(self) -> None:
        """Make the cases of broken laws smaller, one law at a time; each smaller case may be another law's smallest."""
        while self.pending:
            law = next(slug for slug in self.tally.results if slug in self.pending)
            quarry = Quarry(law, self.pending[law])
            with self._timed("shrinking"):
                self._simplify(quarry)
            self._report(quarry)

    def _simplify(self, quarry: Quarry) -> None:
        description = self.judge.description
        simplify(quarry, self.plan.world_sizes, description, self._smaller, self.plan.budget.shrink_seconds)

    def _enough(self) -> bool:
        spent = time.perf_counter() - self.began - self._aside()
        if self.ahead.started >= self.plan.budget.examples:
            return True
        # A slow machine gets more time before the run is given up as one that saw too little.
        patience = _PATIENCE if self._missing() else 1
        return spent >= self.plan.budget.seconds * patience

    def _missing(self) -> list[str]:
        """The kinds of case without which the run says nothing and that were not drawn so far."""
        needed = required(self.judge.description, self.plan.world_sizes, self.plan.pool_size)
        return sorted(feature for feature in needed if not self.tally.features[feature])

    def _drawn(self, case: Case) -> None:
        """Try a drawn case where it is new, and some of those that are always tried."""
        new = self._try(case)
        for _ in range(min(AT_ONCE, len(self.always)) if new else 0):
            self._try(self.always.pop())

    def _try(self, case: Case) -> bool:
        """Run a case where it is new. Raises Enough where no more should be run. Whether it was new."""
        if self._enough():
            raise Enough
        new = self._is_new(case)
        if new:
            self._put(case)
        return new

    def _is_new(self, case: Case) -> bool:
        """Whether the case was not seen before; it is seen from now on."""
        digest = blake2b(encode(case).encode(), digest_size=16).digest()
        new = digest not in self.seen
        self.seen.add(digest)
        return new

    def _put(self, case: Case) -> None:
        self._count(self.ahead.put(case))
        if self.pending:
            self._rest()

    def _rest(self) -> None:
        """Judge the case that the ranks are at, and report what is broken so far."""
        self._count(self.ahead.rest())
        self._report_pending()

    def _count(self, verdict: Verdict | None) -> None:
        """Count a case, and remember it for the laws that it breaks."""
        if verdict is None:
            return
        broken = self.tally.add(verdict)
        self._remember(verdict, broken)
        seconds = verdict.timing.ran + verdict.timing.judged
        self._say(CaseJudged(self.tally.cases, verdict.case, verdict.outcome, broken, seconds))

    def _smaller(self, quarry: Quarry, case: Case) -> Verdict | None:
        verdict = self.judge.judge(case, twice=quarry.twice, only=self.plan.only)
        self.shrink_cases += 1
        broken = [slug for slug in self.tally.results if self.tally.violations_of(slug, verdict)]
        self._remember(verdict, broken)
        self._say(Shrinking(quarry.law, quarry.attempts, quarry.smallest.case))
        return verdict if quarry.law in broken else None

    def _remember(self, verdict: Verdict, broken: Collection[str]) -> None:
        for law in broken:
            known = self.pending.get(law)
            if law not in self.findings and (known is None or size(verdict.case) < size(known.case)):
                self.pending[law] = verdict

    def _report(self, quarry: Quarry) -> None:
        """Run the smallest case again on fresh ranks, and say that the law is broken."""
        law, verdict = quarry.law, quarry.smallest
        with self._timed("replaying"):
            replays = self._replayed(law, verdict.case)
        plan, name = self.plan, self.judge.description.name
        failure = failure_of(
            next(known for known in self.tally.laws if known.slug == law),
            self.tally.violations_of(law, verdict),
            case=verdict.case,
            evidence=verdict.evidence,
            implementation=name,
            replay=plan.destination.replay(law, len(self.findings), name, plan.device) if plan.destination else "",
        )
        finding = self.findings[law] = Finding(failure, quarry.found.case, quarry.attempts, replays)
        self.pending.pop(law, None)
        self._say(FailureFound(finding))

    def _replayed(self, law: str, case: Case) -> Replays:
        tried = broken = 0
        while not tried or broken < tried < _REPLAYS:
            self.judge.renew()
            tried += 1
            broken += bool(self.tally.violations_of(law, self.judge.judge(case, twice=True, only=(law,))))
        return Replays(tried, broken)

    def _result(self, pinned: tuple[PinnedResult, ...]) -> RunResult:
        plan, tally, description = self.plan, self.tally, self.judge.description
        laws = [replace(law, broken=law.law in self.findings) for law in tally.results.values()]
        unpromised = [slug for slug in plan.only if slug not in tally.results]
        laws += [LawResult(slug, reason=f"{description.name} does not promise it") for slug in unpromised]
        missing = self._missing() if plan.cases is None else ()
        total = time.perf_counter() - self.began
        return RunResult(
            description=description,
            device=plan.device,
            world_sizes=plan.world_sizes,
            seed=plan.seed,
            laws=tuple(laws),
            features=dict(sorted(tally.features.items())),
            missing=tuple(missing),
            cases=tally.cases,
            unknown_cases=tally.unknown,
            shrink_cases=self.shrink_cases,
            timings=Timings(
                drawing=max(0.0, total - self._aside() - tally.running - tally.judging),
                running=tally.running,
                judging=tally.judging,
                shrinking=self.seconds["shrinking"],
                replaying=self.seconds["replaying"],
                total=total,
            ),
            findings=tuple(self.findings.values()),
            pinned=pinned,
        )
