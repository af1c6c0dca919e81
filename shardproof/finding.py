"""What a search found out about one broken law: the failure, how it was found, and whether it shows every time."""

from __future__ import annotations

from dataclasses import dataclass

from shardproof.case import Case
from shardproof.failure import Failure


@dataclass(frozen=True, slots=True)
class Replays:
    """How often the smallest case was run again on fresh ranks, and how often the law was broken then."""

    tried: int
    broken: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One law, broken.

    failure   the law, broken in the smallest case; its evidence is what every rank did there
    found_in  the case as it was drawn
    attempts  cases that were tried to make it smaller; 0 where there was no time to
    """

    failure: Failure
    found_in: Case
    attempts: int
    replays: Replays

    @property
    def law(self) -> str:
        """The law's slug."""
        return self.failure.law

    @property
    def case(self) -> Case:
        """The smallest case in which the law is broken."""
        return self.failure.case

    @property
    def flaky(self) -> bool:
        """Whether the law held in some replay."""
        return self.replays.broken < self.replays.tried
