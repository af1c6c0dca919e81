"""What all items have in common: where they were seen, and how a violation says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Protocol

from invariants.evidence import Evidence, Step, Subject
from invariants.law import Law, Violation
from invariants.once import once

_LONGEST = 100


class Located(Protocol):
    """An item that one rank saw in one step, about one parameter or (None) about none in particular."""

    @property
    def step(self) -> Step:
        """The step in which it was seen."""

    @property
    def subject(self) -> Subject | None:
        """The parameter it is about."""


def breach(law: Law[Any], item: Located, observed: str, expected: str, offset: int | None = None) -> Violation:
    """A violation at the place where the item was seen."""
    id = item.subject.id if item.subject is not None else None
    return Violation(law.slug, observed, expected, item.step.rank, id, item.step.index, offset)


def step_breach(law: Law[Any], step: Step, observed: str, expected: str, parameter: str | None = None) -> Violation:
    """A violation by one rank's step."""
    return Violation(law.slug, observed, expected, step.rank, parameter, step.index)


def story_of(step: Step) -> str:
    """What became of a step, in a few words."""
    if step.outcome == "done":
        return f"{step.kind} done"
    if step.outcome == "lost":
        return f"{step.kind} lost: the rank {brief(step.error) or 'did not come back'}"
    return f"{step.kind} {step.outcome}: {brief(step.error)}"


def brief(text: str) -> str:
    """The first line, cut where it is too long for a sentence."""
    line = text.strip().partition("\n")[0]
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


@once
def _by_kind(evidence: Evidence) -> Mapping[str, tuple[Step, ...]]:
    found: dict[str, list[Step]] = {}
    for step in all_steps(evidence):
        found.setdefault(step.kind, []).append(step)
    return {kind: tuple(steps) for kind, steps in found.items()}


def steps_of(evidence: Evidence, *kinds: str) -> Iterator[Step]:
    """Every step of these kinds: kind by kind, and of one kind rank by rank in program order."""
    table = _by_kind(evidence)
    return chain.from_iterable(table.get(kind, ()) for kind in kinds)


@once
def roots_of(evidence: Evidence) -> Mapping[str, str]:
    """For every parameter the id of the one whose memory it uses."""
    return {id: subject.root for id, subject in evidence.subjects.items()}


@once
def demanded_until(evidence: Evidence) -> int:
    """The first step that need not be accepted. From it on the model demands no results: what follows is open too."""
    expected = evidence.expected
    return next((index for index, one in enumerate(expected) if one.wanted != "accept"), len(expected))


@once
def all_steps(evidence: Evidence) -> tuple[Step, ...]:
    """Every step, rank by rank in program order."""
    return tuple(evidence.steps())


@once
def by_index(evidence: Evidence) -> Mapping[int, tuple[Step, ...]]:
    """Every step number with the steps of all ranks that performed it, in group order."""
    found: dict[int, list[Step]] = {}
    for step in all_steps(evidence):
        found.setdefault(step.index, []).append(step)
    return {index: tuple(sorted(found[index], key=lambda step: step.rank)) for index in sorted(found)}
