"""Who accepted what: registrations across ranks, and operations that return nothing else to judge by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from invariants.evidence import Evidence, Expected, RankStory, Step, Subject
from invariants.law import Law, Violation
from invariants.once import picker
from invariants.views.common import all_steps, by_index, demanded_until

# Their results, or the absence of any, are judged by laws of their own.
_JUDGED_BY_RESULT = {"register", "layout", "gather", "wait", "reduce", "norm", "save", "load"}


@dataclass(frozen=True, slots=True)
class Registration:
    """One registration as every rank answered it that is known to have answered.

    `answers` are the register steps; a rank that was lost only later, whose earlier steps are not known, went past
    it and stands here as done.
    """

    expected: Expected
    subjects: tuple[Subject, ...]
    answers: tuple[Step, ...]

    @property
    def refusals(self) -> tuple[Step, ...]:
        """The answers that refuse."""
        return tuple(answer for answer in self.answers if refuses(answer))


def refuses(answer: Step) -> bool:
    """Whether a rank refused: the call raised."""
    return answer.outcome in ("refused", "raised")


@picker
def registrations(evidence: Evidence) -> Iterator[Registration]:
    """One item a register step of the program."""
    for index, steps in by_index(evidence).items():
        if steps[0].kind != "register" or index >= len(evidence.expected):
            continue
        passed = _went_past(evidence, steps[0]) if len(steps) < steps[0].world_size else []
        subjects = (evidence.subjects.get(id) for id in steps[0].parameters)
        yield Registration(
            evidence.expected[index],
            tuple(subject for subject in subjects if subject is not None),
            tuple(sorted([*steps, *passed], key=lambda step: step.rank)),
        )


def _went_past(evidence: Evidence, register: Step) -> list[Step]:
    """The ranks without a known answer that are known to have come further."""
    first = (story.steps[0] for story in evidence.ranks if story.steps)
    later = {step.rank for step in first if step.index > register.index and step.world_size == register.world_size}
    known = {step.rank for step in by_index(evidence)[register.index]}
    return [replace(register, rank=rank, outcome="done", error="") for rank in sorted(later - known)]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One step that must be accepted, on one rank."""

    step: Step
    reason: str
    subject: Subject | None = None


@picker
def attempts(evidence: Evidence) -> Iterator[Attempt]:
    """Registrations that must be accepted, and every later operation that has no result to be judged by."""
    for registration in registrations(evidence):
        if registration.expected.wanted == "accept":
            yield from (Attempt(answer, registration.expected.reason) for answer in registration.answers)
    until = demanded_until(evidence)
    for step in all_steps(evidence):
        if step.index < until and step.kind not in _JUDGED_BY_RESULT:
            yield Attempt(step, evidence.expected[step.index].reason)


@dataclass(frozen=True, slots=True)
class Whole:
    """Everything one rank did, and the time it had for each operation."""

    story: RankStory
    deadline: float

    @property
    def lost(self) -> Step | None:
        """The operation it was lost in, where that is known."""
        return next((step for step in self.story.steps if step.outcome == "lost"), None)

    def breach(self, law: Law[Any], step: Step | None, observed: str, expected: str) -> Violation:
        """A violation by this rank, in one of its steps where that is known."""
        rank = step.rank if step else self.story.pool_rank
        return Violation(law.slug, observed, expected, rank, step=step.index if step else None)


def wholes(evidence: Evidence) -> Iterator[Whole]:
    """One item a rank, whatever became of it."""
    return (Whole(story, evidence.deadline) for story in evidence.ranks)
