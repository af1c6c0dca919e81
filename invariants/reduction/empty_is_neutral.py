"""A rank without elements changes nothing and breaks nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite

from invariants.evidence import Evidence, Step, Subject
from invariants.law import Law, Violation
from invariants.views import breach, reductions, scalars, story_of

_NORMS = scalars("norm")


@dataclass(frozen=True, slots=True)
class Empty:
    """A reduce or norm step over a parameter that is empty on some rank. `bits`: a rank's shard that owns nothing."""

    step: Step
    subject: Subject | None
    bits: bytes = b""


def over(evidence: Evidence) -> Iterator[Empty]:
    """Reduces and norms over parameters with an empty shard."""
    for item in reductions(evidence):
        # A reduce that failed may have failed for any of its parameters.
        ids = item.step.parameters if item.failed else (item.subject.id,)
        if any(_empty_somewhere(evidence.subjects[id], item.step.world_size) for id in ids if id in evidence.subjects):
            owned = item.layout.owned(item.step.rank)
            yield Empty(item.step, item.subject, item.seen.bits if item.seen and not owned else b"")
    for scalar in _NORMS(evidence):
        if any(_empty_somewhere(subject, scalar.step.world_size) for subject in scalar.subjects):
            yield Empty(scalar.step, None)


def _empty_somewhere(subject: Subject, world_size: int) -> bool:
    layout = subject.layouts.get(world_size)
    return layout is not None and any(layout.owned(rank) == 0 for rank in range(world_size))


def check(item: Empty) -> Iterator[Violation]:
    """The step is done, the empty shard is empty or zero, and the number is one."""
    expected = f"{item.step.kind} done, an empty shard is neutral"
    if item.step.outcome != "done":
        yield breach(LAW, item, story_of(item.step), expected)
    elif item.step.scalar is not None and not isfinite(item.step.scalar):
        yield breach(LAW, item, f"{item.step.kind} {item.step.scalar}", "a finite number, an empty shard is neutral")
    elif any(item.bits):
        yield breach(LAW, item, "a shard that owns nothing is not zero", "zero or no elements")


LAW: Law[Empty] = Law(
    slug="empty-is-neutral",
    family="reduction",
    sentence="A rank that owns nothing of a parameter takes part in every reduction as its neutral element.",
    why="The maximum or mean of no elements is an error or a NaN, and one NaN over all ranks is a NaN everywhere.",
    rows=("N3",),
    needs=("reduce",),
    over=over,
    check=check,
)
