"""Memory that the harness owns, was handed, or looks at again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from invariants.evidence import Evidence, Held, RankStory, Step, Subject
from invariants.once import picker
from invariants.views.common import all_steps, demanded_until, steps_of


@dataclass(frozen=True, slots=True)
class Touched:
    """One step after which the harness's memory was looked at."""

    step: Step
    subject: Subject | None = None


@picker
def touched(evidence: Evidence) -> Iterator[Touched]:
    """Every step that came back, on every rank."""
    return (Touched(step) for step in all_steps(evidence) if step.outcome != "lost")


@dataclass(frozen=True, slots=True)
class Again:
    """An earlier result, looked at again after `step`."""

    step: Step
    held: Held
    subject: Subject | None


def held(*, released: bool) -> Callable[[Evidence], Iterator[Again]]:
    """Results looked at again, before or after their parameter was released."""

    def over(evidence: Evidence) -> Iterator[Again]:
        for step in all_steps(evidence):
            for one in step.held:
                if one.released == released:
                    yield Again(step, one, evidence.subjects.get(one.parameter))

    return over


@dataclass(frozen=True, slots=True)
class Freed:
    """Whether a parameter's gathered memory was gone after its last release."""

    step: Step
    subject: Subject | None
    gone: bool


@picker
def freed(evidence: Evidence) -> Iterator[Freed]:
    """One item a parameter and release after which the harness looked."""
    for step in steps_of(evidence, "release"):
        for id, gone in step.freed.items():
            yield Freed(step, evidence.subjects.get(id), gone)


@dataclass(frozen=True, slots=True)
class Twice:
    """One rank's story of the same case under two kinds of poison; from step `until` on nothing is demanded."""

    story: RankStory
    again: RankStory
    until: int


@picker
def twice(evidence: Evidence) -> Iterator[Twice]:
    """One item a rank, where the case ran twice."""
    if evidence.second is not None:
        others = {story.pool_rank: story for story in evidence.second.ranks}
        for story in evidence.ranks:
            if story.pool_rank in others:
                yield Twice(story, others[story.pool_rank], demanded_until(evidence))
