"""A broken law as an object: what was seen, the smallest case that shows it, and whether it shows it every time."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from invariants import Violation
from shardproof.case import Case

if TYPE_CHECKING:
    from shardproof.engine import Verdict


@dataclass(frozen=True, slots=True)
class Replays:
    """How often the smallest case was run again on fresh ranks, and how often the law was broken then."""

    tried: int
    broken: int


@dataclass(frozen=True, slots=True)
class Failure:
    """One law, broken.

    verdict     of the smallest case in which it is broken; its evidence is what every rank did
    violations  those of this law in it, first place first
    found_in    the case as it was drawn
    attempts    cases that were tried to make it smaller; 0 where there was no time to
    file        the case file, where results are written
    """

    implementation: str
    device: str
    law: str
    verdict: Verdict
    violations: tuple[Violation, ...]
    found_in: Case
    attempts: int
    replays: Replays
    file: Path | None = None

    @property
    def case(self) -> Case:
        """The smallest case in which the law is broken."""
        return self.verdict.case

    @property
    def flaky(self) -> bool:
        """Whether the law held in some replay."""
        return self.replays.broken < self.replays.tried

    @property
    def replay(self) -> str:
        """The command that runs the case again; empty where it was not written to a file."""
        if self.file is None:
            return ""
        words = ["shardproof", "replay", str(self.file), "--impl", self.implementation, "--device", self.device]
        return shlex.join(words)


def size(case: Case) -> tuple[int, int, int, int, int]:
    """By which of two cases is the smaller: operations, parameters, world size, elements, anything else special."""
    special = len(case.groups) + len(case.delays) + len(case.divergences) + case.main.ranks[0] + case.seed
    return (
        len(case.program),
        len(case.parameters),
        case.world_size,
        sum(parameter.numel for parameter in case.parameters),
        special,
    )
