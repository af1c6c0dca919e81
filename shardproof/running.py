"""One case on its ranks: sent, waited for, judged. The ranks are needed between the first two only."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from invariants import Evidence, Expected, Judgement, Law, RankStory, Step, Subject, Violation, judge
from shardproof import oracle, wire
from shardproof.case import Case
from shardproof.ranks import Pool, RankReport

_ENTRY = "shardproof.rank_side.entry:run_case"


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
class Run:
    """One run of a case: `payload` is what the ranks are sent, `place` a folder of the run's own, if it has one."""

    case: Case
    payload: Mapping[str, Any]
    pool_of: Callable[[Case], Pool]
    deadline: float
    backend: str
    place: Path | None
    pool: Pool = field(init=False)
    subjects: Mapping[str, Subject] = field(init=False)
    expected: tuple[Expected, ...] = field(init=False)
    reports: tuple[RankReport, ...] = field(init=False)

    def begin(self) -> None:
        """Have the ranks begin, and ask the model meanwhile, as for an implementation without a policy."""
        members = sorted({rank for group in self.case.groups for rank in group.ranks})
        self.pool = self.pool_of(self.case)
        self.pool.start(_ENTRY, self.payload, ranks=members, deadline=self.deadline)
        self.subjects = oracle.subjects(self.case)
        self.expected = oracle.expectations(self.case, None, self.backend)

    def wait(self) -> bool:
        """Until every rank has come back, or is given up. Whether all performed the whole program."""
        try:
            self.reports = self.pool.finish()
        finally:
            if self.place is not None:
                shutil.rmtree(self.place, ignore_errors=True)
        return all(report.ended == "done" for report in self.reports)

    def evidence(self) -> Evidence:
        """What the ranks saw, beside what the model says."""
        policy = next((report.value["policy"] for report in self.reports if _answered(report)), None)
        if policy is not None:  # it decides what must be accepted, and is known by the ranks only
            self.expected = oracle.expectations(self.case, policy, self.backend)
        return Evidence(
            world_size=self.case.world_size,
            subjects=self.subjects,
            ranks=tuple(_story(self.case, report) for report in self.reports),
            expected=self.expected,
            deadline=self.deadline,
        )


@dataclass(slots=True)
class Running:
    """A case to be run, once or under both poisons, and judged by these laws.

    `begin`, `wait` and `verdict` follow one another. Between the first two no other case may begin.
    """

    case: Case
    applying: Sequence[tuple[Law[Any], Judgement | None]]
    runs: Sequence[Run]
    ran: float = 0.0
    complete: bool = False

    def begin(self) -> None:
        """Have the ranks begin."""
        began = time.perf_counter()
        self.runs[0].begin()
        self.ran += time.perf_counter() - began

    def wait(self) -> None:
        """Until the ranks are free for another case. The second run is made where the first was complete."""
        began = time.perf_counter()
        self.complete = self.runs[0].wait()
        for run in self.runs[1:] if self.complete else ():
            run.begin()
            run.wait()
        self.ran += time.perf_counter() - began

    def verdict(self) -> Verdict:
        """What the laws say of it."""
        began = time.perf_counter()
        evidence = self.runs[0].evidence()
        for run in self.runs[1:] if self.complete else ():
            evidence = replace(evidence, second=run.evidence())
        judgements = tuple(unmet or judge(law, evidence) for law, unmet in self.applying)
        return Verdict(self.case, evidence, judgements, Timing(self.ran, time.perf_counter() - began))


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
