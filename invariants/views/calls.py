"""The collectives that ranks issued, and the memory those receive into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from invariants.evidence import Buffer, Call, Evidence, RankStory, Seen, Step, Subject
from invariants.once import picker
from invariants.views.common import all_steps, by_index, demanded_until, roots_of
from reference import DTYPES, Layout

# Point-to-point messages are seen as "other" and differ between ranks by their nature.
_COLLECTIVE = {"all_gather", "reduce_scatter", "all_reduce", "broadcast"}


@dataclass(frozen=True, slots=True)
class Together:
    """The collectives of one step on one group, side by side: `calls[i]` are those that `ranks[i]` issued."""

    index: int
    kind: str
    ranks: tuple[int, ...]
    calls: tuple[tuple[Call, ...], ...]


@picker
def together(evidence: Evidence) -> Iterator[Together]:
    """One item a step and group with at least one collective, where every rank completed the step."""
    for index, steps in by_index(evidence).items():
        if len(steps) < steps[0].world_size or any(step.outcome != "done" for step in steps):
            continue
        groups = {call.group for step in steps for call in step.cost.calls if call.op in _COLLECTIVE}
        for group in sorted(groups):
            members = [step for step in steps if not group or step.rank in group]
            calls = tuple(
                tuple(call for call in step.cost.calls if call.group == group and call.op in _COLLECTIVE)
                for step in members
            )
            if len(members) > 1:
                yield Together(index, steps[0].kind, tuple(step.rank for step in members), calls)


@dataclass(frozen=True, slots=True)
class Sent:
    """One buffer that a collective sends."""

    step: Step
    op: str
    send: Buffer
    subject: Subject | None = None


@picker
def sends(evidence: Evidence) -> Iterator[Sent]:
    """Every buffer that was sent."""
    for step in all_steps(evidence):
        for call in step.cost.calls or ():
            yield from (Sent(step, call.op, buffer) for buffer in call.send)


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes [start, end) of one storage."""

    storage: int
    start: int
    end: int

    def meets(self, other: Span) -> bool:
        """Whether the two have bytes in common."""
        return self.storage == other.storage and self.start < other.end and other.start < self.end


def span(buffer: Buffer) -> Span | None:
    """The bytes that a contiguous buffer covers; None for an empty or strided one, or a dtype without known size."""
    dtype = DTYPES.get(buffer.dtype)
    if dtype is None or not buffer.numel or not buffer.contiguous:
        return None
    return Span(buffer.storage, buffer.offset * dtype.itemsize, (buffer.offset + buffer.numel) * dtype.itemsize)


def extent(seen: Seen) -> Span | None:
    """The bytes from a tensor's first element to its last; None for an empty one or a dtype without known size."""
    dtype = DTYPES.get(seen.dtype)
    if dtype is None or not seen.bits:
        return None
    reach = 1 + sum((size - 1) * stride for size, stride in zip(seen.shape, seen.strides, strict=False))
    return Span(seen.storage, seen.offset * dtype.itemsize, (seen.offset + reach) * dtype.itemsize)


def all_gathers(step: Step) -> tuple[Call, ...]:
    """The all-gathers of one step."""
    calls = step.cost.calls
    return tuple(call for call in calls if call.op == "all_gather") if calls else ()


def received(calls: Iterable[Call]) -> frozenset[int]:
    """The storages that these calls receive into."""
    return frozenset([buffer.storage for call in calls for buffer in call.recv if buffer.numel])


@dataclass(frozen=True, slots=True)
class Landed:
    """A gathered result and the all-gathers it came with, where their step was about this parameter alone.

    Those are of its own step, else of the last step that gathered it. Beside other parameters' buffers, which may be
    gone by now, a recycled address could be taken for one of them. `ever` are all storages that an all-gather received
    into on this rank until then.
    """

    step: Step
    subject: Subject
    layout: Layout
    seen: Seen
    calls: tuple[Call, ...]
    ever: frozenset[int]


@picker
def landed(evidence: Evidence) -> Iterator[Landed]:
    """Every gathered result of at least one element on a rank that has issued an all-gather by then."""
    for story in evidence.ranks:
        yield from _landed(evidence, story)


# A checkpoint's own all-gathers carry no parameter.
_GATHERING = ("gather", "prefetch", "wait")


def _landed(evidence: Evidence, story: RankStory) -> Iterator[Landed]:
    last: dict[str, tuple[Call, ...]] = {}
    ever: frozenset[int] = frozenset()
    until, roots = demanded_until(evidence), roots_of(evidence)
    for step in story.steps:
        if step.index >= until:
            return
        calls = all_gathers(step)
        if calls:
            ever |= received(calls)
        if calls and step.kind in _GATHERING:
            names = {roots.get(id, id) for id in step.parameters}
            last.update(dict.fromkeys(names, calls if len(names) == 1 else ()))
        for id, seen in step.results.items() if ever and step.kind in ("gather", "wait") else ():
            subject = evidence.subjects.get(id)
            layout = subject.layouts.get(step.world_size) if subject else None
            if subject is not None and layout is not None and seen.bits:
                yield Landed(step, subject, layout, seen, last.get(subject.root, ()), ever)
