"""What a run found, law by law."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from shardproof.failure import Failure
from shardproof.finding import Finding

if TYPE_CHECKING:
    from shardproof.deviations import Deviation
    from shardproof.engine import Description

LawOutcome = Literal["held", "broken", "deviates", "not judged"]
RunOutcome = Literal["held", "broken", "could not judge"]


@dataclass(frozen=True, slots=True)
class LawResult:
    """One law over all drawn cases.

    `cases` in which it judged something, `items` that it judged in them. `broken_cases` broke it;
    `deviating_cases` broke it as a known deviation says. `reason` says why it was not judged.
    """

    law: str
    cases: int = 0
    items: int = 0
    broken_cases: int = 0
    deviating_cases: int = 0
    reason: str = ""
    broken: bool = False

    @property
    def outcome(self) -> LawOutcome:
        """The one word for it; "deviates": broken in no other way than is known."""
        if self.broken:
            return "broken"
        if self.deviating_cases:
            return "deviates"
        return "held" if self.cases else "not judged"


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds, apart: drawing cases, running them on ranks, judging them, making failing ones smaller, replaying."""

    drawing: float = 0.0
    running: float = 0.0
    judging: float = 0.0
    shrinking: float = 0.0
    replaying: float = 0.0
    total: float = 0.0


@dataclass(frozen=True, slots=True)
class PinnedResult:
    """A known deviation and whether its own case still deviates.

    None where it was not asked: `--only`, or it is about another device or torch.
    """

    deviation: Deviation
    deviates: bool | None


@dataclass(frozen=True, slots=True)
class RunResult:
    """Everything a run found. `features` counts cases by what they exercise, `missing` are required ones never seen."""

    description: Description
    device: str
    world_sizes: tuple[int, ...]
    seed: int
    laws: tuple[LawResult, ...]
    features: Mapping[str, int]
    missing: tuple[str, ...]
    cases: int
    unknown_cases: int
    shrink_cases: int
    timings: Timings
    findings: tuple[Finding, ...]
    pinned: tuple[PinnedResult, ...] = ()

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The broken laws, each with the smallest case that shows it."""
        return tuple(finding.failure for finding in self.findings)

    @property
    def stale(self) -> tuple[Deviation, ...]:
        """Known deviations that no longer deviate."""
        return tuple(pinned.deviation for pinned in self.pinned if pinned.deviates is False)

    @property
    def outcome(self) -> RunOutcome:
        """broken: a law is, or a known deviation is gone; else whether enough was seen to say that all hold."""
        if self.findings or self.stale:
            return "broken"
        judged = any(law.outcome != "not judged" for law in self.laws)
        return "held" if judged and not self.missing else "could not judge"

    @property
    def why_not(self) -> str:
        """Why nothing can be said; empty where something can."""
        if self.outcome != "could not judge":
            return ""
        if self.missing:
            return f"none of the {self.cases} cases had: {', '.join(self.missing)}"
        reasons = {law.reason for law in self.laws if law.reason}
        return "; ".join(sorted(reasons)) or "no case was run"

    @property
    def exit_code(self) -> int:
        """As the command line ends with it."""
        return {"held": 0, "broken": 1, "could not judge": 2}[self.outcome]
