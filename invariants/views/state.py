"""State beside the parameters: scalars that are saved, counters, profile records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from invariants.evidence import Evidence, Step, Subject
from invariants.once import picker
from invariants.views.common import all_steps, by_index


@dataclass(frozen=True, slots=True)
class Restored:
    """The scalars one rank has after a load, and those that were there at the save before it (rank 0's)."""

    step: Step
    saved: Mapping[str, float]
    subject: Subject | None = None


@picker
def restored(evidence: Evidence) -> Iterator[Restored]:
    """One item a rank and load, where a save before it had any scalars."""
    at_save: Mapping[str, float] = {}
    for steps in by_index(evidence).values():
        if steps[0].kind == "save":
            at_save = steps[0].scalars
        if steps[0].kind == "load" and at_save:
            yield from (Restored(step, at_save) for step in steps if step.outcome == "done")


@dataclass(frozen=True, slots=True)
class Counted:
    """The implementation's counters after an operation, and after the last such operation on the same parameters."""

    step: Step
    before: Mapping[str, int]
    subject: Subject | None = None


@picker
def counted(evidence: Evidence) -> Iterator[Counted]:
    """One item an operation that a rank repeats and that leaves counters."""
    for story in evidence.ranks:
        last: dict[tuple[str, tuple[str, ...], int], Step] = {}
        for step in story.steps:
            again = step.kind, step.parameters, step.world_size
            if step.counters and again in last:
                yield Counted(step, last[again].counters)
            if step.counters:
                last[again] = step


@dataclass(frozen=True, slots=True)
class Profiled:
    """One profile record."""

    step: Step
    record: Mapping[str, float]
    subject: Subject | None = None


@picker
def profiled(evidence: Evidence) -> Iterator[Profiled]:
    """Every profile record."""
    for step in all_steps(evidence):
        yield from (Profiled(step, record) for record in step.profile)
