"""Counts what the laws said, case by case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from invariants import Judgement, Law, Violation
from shardproof.case import Case
from shardproof.deviations import Deviation, excused_by
from shardproof.features import features
from shardproof.outcome import LawResult

if TYPE_CHECKING:
    from shardproof.running import Verdict


@dataclass(slots=True)
class Tally:
    """One run's counts. `laws` are those that are judged."""

    laws: Sequence[Law[Any]]
    deviations: Sequence[Deviation]
    device: str
    cases: int = 0
    unknown: int = 0
    features: Counter[str] = field(default_factory=Counter)
    results: dict[str, LawResult] = field(default_factory=dict)
    running: float = 0.0
    judging: float = 0.0

    def __post_init__(self) -> None:
        """Nothing was judged yet."""
        self.results = {law.slug: LawResult(law.slug) for law in self.laws}

    def add(self, verdict: Verdict) -> tuple[str, ...]:
        """Count a drawn case. Returns the laws it breaks in a way that is not known, in the catalogue's order."""
        self.cases += 1
        self.unknown += verdict.outcome == "unknown"
        self.features.update(features(verdict.case))
        self.running += verdict.timing.ran
        self.judging += verdict.timing.judged
        return tuple(judgement.law for judgement in verdict.judgements if self._count(verdict.case, judgement))

    def _count(self, case: Case, judgement: Judgement) -> bool:
        broken = bool(self.unexcused(case, judgement.violations))
        so_far = self.results[judgement.law]
        self.results[judgement.law] = replace(
            so_far,
            cases=so_far.cases + bool(judgement.judged),
            items=so_far.items + judgement.judged,
            broken_cases=so_far.broken_cases + broken,
            deviating_cases=so_far.deviating_cases + (bool(judgement.violations) and not broken),
            reason=judgement.reason or so_far.reason,
        )
        return broken

    def unexcused(self, case: Case, violations: Sequence[Violation]) -> tuple[Violation, ...]:
        """The violations that no known deviation covers."""
        return tuple(v for v in violations if excused_by(self.deviations, case, v, self.device) is None)

    def violations_of(self, law: str, verdict: Verdict) -> tuple[Violation, ...]:
        """What breaks this law in a verdict, known deviations left out."""
        found = (judgement.violations for judgement in verdict.judgements if judgement.law == law)
        return self.unexcused(verdict.case, [violation for violations in found for violation in violations])
