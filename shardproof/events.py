"""What a run says while it goes on. Reporters listen; nothing that listens can change the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardproof.case import Case
from shardproof.finding import Finding

if TYPE_CHECKING:
    from shardproof.deviations import Deviation
    from shardproof.engine import Description
    from shardproof.outcome import RunResult
    from shardproof.profiles import Budget


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The implementation was found and its ranks are there."""

    description: Description
    device: str
    world_sizes: tuple[int, ...]
    seed: int
    budget: Budget
    laws: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PinnedJudged:
    """A known deviation's own case was run: does it still deviate?"""

    deviation: Deviation
    deviates: bool


@dataclass(frozen=True, slots=True)
class CaseJudged:
    """One drawn case was run and judged. `broken` are the laws it breaks, known deviations not among them."""

    number: int
    case: Case
    outcome: str
    broken: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Shrinking:
    """One attempt to make the case smaller in which `law` is broken; `smallest` is the smallest so far."""

    law: str
    attempts: int
    smallest: Case


@dataclass(frozen=True, slots=True)
class FailureFound:
    """A law is broken; this is its smallest case."""

    finding: Finding


@dataclass(frozen=True, slots=True)
class RunFinished:
    """Everything that was found."""

    result: RunResult


Event = RunStarted | PinnedJudged | CaseJudged | Shrinking | FailureFound | RunFinished
Listener = Callable[[Event], None]
