"""What cannot have been complete yet: a collective that some rank had not begun.

A collective ends nowhere before every rank that takes part in it has begun. Where a rank had finished a step before
another began an earlier one, whatever that earlier step started was still under way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from invariants.evidence import Call, Evidence, RankStory, Seen, Step, Subject
from invariants.once import picker
from invariants.views.calls import Span, all_gathers, span
from invariants.views.common import by_index, demanded_until


def ended(step: Step) -> float | None:
    """When a step returned, on the clock that all ranks share; None where there is none."""
    return None if step.began is None else step.began + step.seconds


def not_begun(step: Step, at: float | None, peers: tuple[Step, ...]) -> tuple[int, ...]:
    """The ranks that had not begun the same step at that time."""
    return tuple(
        peer.rank
        for peer in peers
        if at is not None and peer.rank != step.rank and peer.began is not None and peer.began > at
    )


@dataclass(frozen=True, slots=True)
class Said:
    """What the implementation said of a parameter after a step, or what it handed out because it had said so.

    `waiting_for`: ranks that hold elements of the parameter and had not begun the prefetch that it comes with when this
    step ended. `served`: a result handed out without communication because the parameter was said to be available, with
    the bits demanded.
    """

    step: Step
    subject: Subject
    available: bool
    waiting_for: tuple[int, ...] = ()
    served: tuple[Seen, bytes] | None = None


@picker
def said(evidence: Evidence) -> Iterator[Said]:
    """What was said after a prefetch or an invalidate, and what was served on the strength of it."""
    for story in evidence.ranks:
        yield from _said(evidence, story)


def _said(evidence: Evidence, story: RankStory) -> Iterator[Said]:
    known: dict[str, bool] = {}
    flights: dict[str, Step] = {}
    for step in story.steps:
        if step.kind in ("gather", "wait") and not step.cost.calls:
            yield from _served(evidence, step, known)
        for id, available in step.available.items() if step.kind in ("prefetch", "invalidate") else ():
            subject = evidence.subjects.get(id)
            if subject is None:
                continue
            # What was available before may stay so, and what an earlier prefetch started may have arrived.
            fresh = step.kind == "prefetch" and available and not known.get(subject.root, False)
            started = flights.get(subject.root, step)
            yield Said(step, subject, available, _missing(evidence, started, ended(step), subject) if fresh else ())
        known.update(_heard(evidence, step))
        _follow(flights, evidence, step)


def _follow(flights: dict[str, Step], evidence: Evidence, step: Step) -> None:
    """Keep the first prefetch that each parameter may still come with, until something else is done with it."""
    for id in step.parameters if step.kind not in _LEAVES_FLIGHTS else ():
        root = evidence.subjects[id].root if id in evidence.subjects else id
        if step.kind == "prefetch":
            flights.setdefault(root, step)
        else:
            flights.pop(root, None)


_LEAVES_FLIGHTS = ("layout", "use", "accumulate", "reduce", "norm")


def _heard(evidence: Evidence, step: Step) -> dict[str, bool]:
    """What is known of availability after a step, by the parameter whose memory it is.

    Tied names are available together. What a save or a model run gathers on its way is not reported, so all may be.
    """
    if step.kind in _GATHERS_ON_ITS_WAY:
        return {subject.root: True for subject in evidence.subjects.values()}
    heard = {id: available for id, available in step.available.items() if id in evidence.subjects}
    return {evidence.subjects[id].root: available for id, available in heard.items()}


_GATHERS_ON_ITS_WAY = ("save", "load", "forward", "backward")


def _served(evidence: Evidence, step: Step, known: dict[str, bool]) -> Iterator[Said]:
    for id, seen in step.results.items() if step.index < demanded_until(evidence) else ():
        subject, bits = evidence.subjects.get(id), evidence.expected[step.index].bits(id, step.rank)
        exact = not evidence.expected[step.index].room.get(id)
        if subject is not None and bits is not None and exact and known.get(subject.root, False):
            yield Said(step, subject, True, served=(seen, bits))


def _missing(evidence: Evidence, started: Step, at: float | None, subject: Subject) -> tuple[int, ...]:
    layout = subject.layouts.get(started.world_size)
    late = not_begun(started, at, by_index(evidence)[started.index])
    return tuple(rank for rank in late if layout is not None and layout.owned(rank))


@dataclass(frozen=True, slots=True)
class Write:
    """A buffer that a collective receives into, and bytes that another one, still under way, receives into as well.

    `started` is the step that issued that other one.
    """

    step: Step
    into: Span
    unfinished: tuple[Span, ...]
    started: int
    subject: Subject | None = None


@picker
def writes(evidence: Evidence) -> Iterator[Write]:
    """Receives beside others of the same call, and receives while an earlier prefetch was certainly under way."""
    for story in evidence.ranks:
        flights: list[Step] = []
        for step in story.steps:
            if not step.cost.calls:
                continue
            calls = all_gathers(step)
            for spans in map(_spans, calls):
                yield from (Write(step, spans[i], spans[:i], step.index) for i in range(1, len(spans)))
            for flight in flights:
                if not_begun(flight, ended(step), by_index(evidence)[flight.index]):
                    unfinished = tuple(part for call in all_gathers(flight) for part in _spans(call))
                    yield from (Write(step, into, unfinished, flight.index) for call in calls for into in _spans(call))
            if step.kind == "prefetch" and calls:
                flights.append(step)


def _spans(call: Call) -> tuple[Span, ...]:
    return tuple(found for found in map(span, call.recv) if found is not None)
