"""Runs one case on ranks and judges it: the pool, the model and the laws put together."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from invariants import LAWS, Evidence, Judgement, Law, RankStory, Step, Violation, judge
from shardproof import oracle, wire
from shardproof.backends import BACKEND_OF
from shardproof.case import Case
from shardproof.case_file import encode
from shardproof.errors import CouldNotJudge, UsageError
from shardproof.implementations import resolve
from shardproof.ranks import Pool, PoolError, RankReport

# Two bytes that fresh memory and padding are filled with: NaN or -1 everywhere, and an ordinary number.
_POISONS = (0xFF, 0x3B)
# One case in this many runs twice, under both poisons.
_TWICE_EVERY = 8
# Seconds that an implementation may take when it is first used: some compile their operations then.
_FIRST_USE = 180.0
_ENTRY = "shardproof.rank_side.entry"


@dataclass(frozen=True, slots=True)
class Description:
    """What is under test: how it was named, what it offers and promises, which layouts and alignments it has."""

    name: str
    target: str
    form: str
    offers: tuple[str, ...]
    promises: tuple[str, ...]
    layouts: tuple[str, ...]
    alignments: tuple[int, ...]
    needs_default_group: bool
    doc: str
    torch: str
    backend: str


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds that one case took: to send and to wait for the ranks, and to judge."""

    ran: float
    judged: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the laws say of one case."""

    case: Case
    evidence: Evidence
    judgements: tuple[Judgement, ...]
    timing: Timing

    @property
    def broken(self) -> tuple[Violation, ...]:
        """Every violation, law by law."""
        return tuple(violation for judgement in self.judgements for violation in judgement.violations)

    @property
    def outcome(self) -> Literal["valid", "invalid", "unknown"]:
        """invalid: a law is broken; unknown: no law could be judged; valid: what was judged holds."""
        if self.broken:
            return "invalid"
        return "valid" if any(judgement.judged for judgement in self.judgements) else "unknown"


@dataclass(slots=True)
class Running:
    """A case that ranks are at. `wait` until they are done with it; what they saw can be judged at any time after."""

    case: Case
    _applying: Sequence[tuple[Law[Any], Judgement | None]]
    _seen: Callable[[], Evidence]
    _again: Callable[[], Callable[[], Evidence]] | None
    ran: float = 0.0
    _evidence: Evidence | None = None

    def wait(self) -> Evidence:
        """Until the ranks are free for another case."""
        if self._evidence is None:
            began = time.perf_counter()
            evidence = self._seen()
            if self._again and all(story.ended == "done" for story in evidence.ranks):
                evidence = replace(evidence, second=self._again()())
            self._evidence = evidence
            self.ran += time.perf_counter() - began
        return self._evidence

    def verdict(self) -> Verdict:
        """What the laws say of it; waits where nobody has."""
        evidence, began = self.wait(), time.perf_counter()
        judgements = tuple(unmet or judge(law, evidence) for law, unmet in self._applying)
        return Verdict(self.case, evidence, judgements, Timing(self.ran, time.perf_counter() - began))


class Engine:
    """An implementation on a pool of ranks.

    Raises UsageError where the name is none or leads to no implementation, CouldNotJudge where a known one cannot be
    imported.
    """

    def __init__(
        self, name: str, *, device: str = "cpu", pool_size: int = 8, deadline: float = 10.0, grace: float = 1.0
    ) -> None:
        """Start the pool and ask rank 0 what the implementation is. `deadline` and `grace` are seconds, the pool's."""
        self._target = resolve(name)
        self._device = device
        self._deadline, self._grace = deadline, grace
        self._folder = Path(tempfile.mkdtemp(prefix="shardproof-"))
        self._pools: dict[int, Pool] = {}
        self._pool_size = pool_size
        self._default_group = False
        try:
            self._put_under_test(self._describe(name))
        except BaseException:
            self.close()
            raise
        if self.description.needs_default_group:
            self._drop_pools()
            self._default_group = True

    def __enter__(self) -> Engine:
        """Nothing more to open."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """End every rank and remove what was written."""
        self._drop_pools()
        shutil.rmtree(self._folder, ignore_errors=True)

    def renew(self) -> None:
        """Go on with fresh ranks: what one case left behind in a process cannot show in the next."""
        for pool in self._pools.values():
            pool.renew()

    def switch(self, name: str) -> None:
        """Put another implementation under test, on the same ranks. Raises UsageError as the constructor does.

        Only for one that needs the default group as little as the first did.
        """
        self._target = resolve(name)
        self._put_under_test(self._describe(name))

    def _put_under_test(self, description: Description) -> None:
        self.description = description
        laws = [law for law in LAWS if not law.is_promise or law.slug in description.promises]
        self._applying = tuple((law, _unmet(law, description)) for law in laws)

    def laws(self) -> tuple[Law[Any], ...]:
        """The laws that apply: all but the promises that the implementation does not make."""
        return tuple(law for law, _ in self._applying)

    def judge(self, case: Case, *, twice: bool | None = None, only: Sequence[str] = ()) -> Verdict:
        """Run a case and apply the laws (`only` these, where given). `twice`: under both poisons, None: on a sample."""
        return self.start(case, twice=twice, only=only).verdict()

    def start(self, case: Case, *, twice: bool | None = None, only: Sequence[str] = ()) -> Running:
        """The first half of `judge`: the ranks are at it on return. The next case may start once it was waited for."""
        began = time.perf_counter()
        encoded = encode(case)
        run = partial(self._started, case, encoded)
        again = partial(run, _POISONS[1]) if (_sampled(encoded) if twice is None else twice) else None
        applying = tuple(one for one in self._applying if not only or one[0].slug in only)
        running = Running(case, applying, run(_POISONS[0]), again)
        running.ran = time.perf_counter() - began
        return running

    def _started(self, case: Case, encoded: str, poison: int) -> Callable[[], Evidence]:
        """Have the ranks begin with a case, and ask the model meanwhile; what waits for what they saw."""
        members = sorted({rank for group in case.groups for rank in group.ranks})
        pool, backend, folder = self._pool(case), BACKEND_OF[self._device], self._place_for(case)
        payload = {"case": encoded, "target": self._target.target, "folder": str(folder), "poison": poison}
        pool.start(f"{_ENTRY}:run_case", payload, ranks=members, deadline=self._deadline)
        subjects, expected = oracle.subjects(case), oracle.expectations(case, None, backend)

        def seen() -> Evidence:
            try:
                reports = pool.finish()
            finally:
                if folder != self._folder:
                    shutil.rmtree(folder, ignore_errors=True)
            # It decides what must be accepted, and is known by the ranks only.
            policy = next((report.value["policy"] for report in reports if _answered(report)), None)
            return Evidence(
                world_size=case.world_size,
                subjects=subjects,
                ranks=tuple(_story(case, report) for report in reports),
                expected=expected if policy is None else oracle.expectations(case, policy, backend),
                deadline=self._deadline,
            )

        return seen

    def _place_for(self, case: Case) -> Path:
        """A folder of the run's own where the case saves anything: what an earlier run saved must not be loaded."""
        if all(operation.kind != "save" for operation in case.program):
            return self._folder
        return Path(tempfile.mkdtemp(dir=self._folder))

    def _pool(self, case: Case | None) -> Pool:
        """One pool for every case, or one a world size where the default group is needed."""
        size = self._pool_size if case is None or not self._default_group else case.pool_size
        size = max(size, case.pool_size if case else 1)
        if size not in self._pools:
            if not self._default_group:
                self._drop_pools()
            self._pools[size] = Pool(
                size,
                device=self._device,
                preload=self._target.preload,
                default_group=self._default_group,
                grace=self._grace,
            )
            self._pool_size = max(size, self._pool_size)
        return self._pools[size]

    def _drop_pools(self) -> None:
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()

    def _describe(self, name: str) -> Description:
        report = self._first_report(name)
        problem = report.value["problem"] if report.ended == "done" and "problem" in report.value else ""
        if report.ended != "done":
            problem = f"{self._target.target} {report.headline} when it was first used\n{report.stderr}"
        if problem:
            raise UsageError(
                "this cannot be used as an implementation",
                where=f"--impl {name}",
                observed=problem.strip(),
                todo="docs/write-an-implementation.md shows the two functions that are needed",
            )
        said: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in report.value.items()
        }
        return Description(name=name, target=self._target.target, backend=BACKEND_OF[self._device], **said)

    def _first_report(self, name: str) -> RankReport:
        """What rank 0 says of the implementation, once all ranks have imported it."""
        payload, deadline = {"target": self._target.target}, max(_FIRST_USE, self._deadline)
        try:
            return self._pool(None).run(f"{_ENTRY}:describe", payload, ranks=[0], deadline=deadline)[0]
        except PoolError as error:
            if not self._target.install:
                raise
            raise CouldNotJudge(f"{name} needs what is not here; {self._target.install}\n{error}") from error


def _unmet(law: Law[Any], description: Description) -> Judgement | None:
    """Why a law cannot be judged of this implementation, if so."""
    lacking = [need for need in law.needs if need not in description.offers and need != "register"]
    return Judgement(law.slug, 0, reason=f"{description.name} does not offer {', '.join(lacking)}") if lacking else None


def _sampled(encoded: str) -> bool:
    return hashlib.blake2b(encoded.encode(), digest_size=2).digest()[0] % _TWICE_EVERY == 0


def _story(case: Case, report: RankReport) -> RankStory:
    """A rank's report as evidence; where it did not come back, the operation it was lost in.

    A rank whose operation raised has answered: its last step says so.
    """
    if _answered(report):
        return RankStory(report.rank, "done", wire.unpack(report.value["steps"], report.blobs))
    return RankStory(report.rank, report.ended, _lost(case, report), _detail(report))


def _answered(report: RankReport) -> bool:
    return isinstance(report.value, dict) and "steps" in report.value


def _lost(case: Case, report: RankReport) -> tuple[Step, ...]:
    if report.noted is None or not 0 <= report.noted < len(case.program):
        return ()
    operation = case.program[report.noted]
    ranks = case.group(operation.group).ranks
    return (
        Step(
            index=report.noted,
            kind=operation.kind,
            parameters=case.acted_on(operation),
            rank=ranks.index(report.rank),
            world_size=len(ranks),
            outcome="lost",
            error=report.headline,
            seconds=report.seconds,
        ),
    )


def _detail(report: RankReport) -> str:
    return "\n".join(part.strip() for part in (report.headline, report.stack, report.stderr) if part)
