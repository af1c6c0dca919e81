"""What operations returned, beside what the model says they must return."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from invariants.bits import Mask, difference, owned_mask, shows, within
from invariants.evidence import Evidence, Seen, Step, Subject
from invariants.law import Law, Violation
from invariants.once import picker
from invariants.views.common import breach, demanded_until, steps_of, story_of
from reference import DTYPES, Layout, locate


@dataclass(frozen=True, slots=True)
class Result:
    """What one rank was given for one parameter (`seen`), and the `bits` the model demands (None: it does not say).

    A step that failed gives one item, for its first parameter, with nothing seen. `room` is how far an element may be
    from the model's, `earlier` what the parameter held before it was written last.
    """

    step: Step
    subject: Subject
    layout: Layout
    bits: bytes | None
    seen: Seen | None
    room: float = 0.0
    earlier: tuple[bytes, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether the operation ended in another way than by returning."""
        return self.step.outcome != "done"


@dataclass(frozen=True, slots=True)
class Reduced(Result):
    """One rank's shard of a reduced gradient. `accumulated`: gradients were accumulated for it before."""

    accumulated: bool = False

    @property
    def dtype(self) -> str:
        """What the gradient must come back in."""
        return self.subject.grad_dtype or self.subject.dtype

    @property
    def itemsize(self) -> int:
        """Bytes of one gradient element."""
        return DTYPES[self.dtype].itemsize


def _results(evidence: Evidence, *kinds: str) -> Iterator[Result]:
    until = demanded_until(evidence)
    for step in steps_of(evidence, *kinds):
        if step.index >= until:
            continue
        expected = evidence.expected[step.index]
        for id in step.parameters:
            subject = evidence.subjects.get(id)
            layout = subject.layouts.get(step.world_size) if subject else None
            if subject is None or layout is None:
                continue
            bits, room = expected.bits(id, step.rank), expected.room.get(id, 0.0)
            yield Result(step, subject, layout, bits, step.results.get(id), room, expected.earlier.get(id, ()))
            if step.outcome != "done":
                break


@picker
def gathered(evidence: Evidence) -> Iterator[Result]:
    """What gather and wait returned, or failed to."""
    return _results(evidence, "gather", "wait")


@picker
def saved(evidence: Evidence) -> Iterator[Result]:
    """What a saved artefact holds, on the ranks that read it back; and saves that failed."""
    return (item for item in _results(evidence, "save") if item.step.results or item.failed)


@picker
def loads(evidence: Evidence) -> Iterator[Result]:
    """What a load returned, where it returns anything; and every load's outcome."""
    return _results(evidence, "load")


@picker
def reductions(evidence: Evidence) -> Iterator[Reduced]:
    """One item a rank and parameter that a reduce step must return a shard of, and one a reduce that failed."""
    accumulated = {story.pool_rank: set[str]() for story in evidence.ranks}
    for story in evidence.ranks:
        waiting = accumulated[story.pool_rank]
        for step in story.steps:
            if step.kind == "accumulate":
                waiting.update(step.parameters)
            if step.kind == "reduce":
                yield from _reduced(evidence, step, waiting)
                waiting.difference_update(step.parameters)


def _reduced(evidence: Evidence, step: Step, waiting: set[str]) -> Iterator[Reduced]:
    if step.index >= demanded_until(evidence):
        return
    expected = evidence.expected[step.index]
    for id in step.parameters:
        subject, bits = evidence.subjects.get(id), expected.bits(id, step.rank)
        layout = subject.layouts.get(step.world_size) if subject else None
        if subject is None or layout is None or (bits is None and step.outcome == "done"):
            continue
        room = expected.room.get(id, 0.0)
        yield Reduced(step, subject, layout, bits, step.results.get(id), room, accumulated=id in waiting)
        if step.outcome != "done":
            return


@picker
def backwards(evidence: Evidence) -> Iterator[Reduced]:
    """This rank's shards of gradients that a backward returned and the model knows; in the parameter's own dtype."""
    for item in _results(evidence, "backward"):
        if item.seen is not None and item.bits is not None:
            subject = replace(item.subject, grad_dtype=None)
            yield Reduced(item.step, subject, item.layout, item.bits, item.seen, item.room)


@dataclass(frozen=True, slots=True)
class Scalar:
    """The number one rank was given, and the one the model says. `subjects`: the parameters it is about.

    `room` is how far the number may be from the model's.
    """

    step: Step
    expected: float | None
    subjects: tuple[Subject, ...]
    room: float = 0.0
    subject: Subject | None = None


def scalars(*kinds: str) -> Callable[[Evidence], Iterator[Scalar]]:
    """What steps of these kinds returned where the model knows the answer, and those that failed."""

    def over(evidence: Evidence) -> Iterator[Scalar]:
        until = demanded_until(evidence)
        for step in steps_of(evidence, *kinds):
            if step.index >= until:
                continue
            wanted = evidence.expected[step.index]
            if wanted.scalar is not None or step.outcome != "done":
                yield Scalar(step, wanted.scalar, tuple(evidence.subjects.values()), wanted.scalar_room)

    return over


def after(pick: Callable[[Evidence], tuple[Result, ...]], *kinds: str) -> Callable[[Evidence], Iterator[Result]]:
    """Those results that the model demands after a step of these kinds on the same memory and in the same world.

    Tied parameters share memory: what is written through one is read through the other.
    """

    def over(evidence: Evidence) -> Iterator[Result]:
        written: dict[tuple[str, int], int] = {}
        for step in steps_of(evidence, *kinds):
            for id in step.parameters:
                subject = evidence.subjects.get(id)
                if subject is not None:
                    place = subject.root, step.world_size
                    written[place] = min(step.index, written.get(place, step.index))
        for item in pick(evidence) if written else ():
            place = item.subject.root, item.step.world_size
            if item.bits is not None and written.get(place, item.step.index) < item.step.index:
                yield item

    return over


def must_match(law: Law[Any], item: Result) -> Iterator[Violation]:
    """The violation by a result that failed, is missing, or is not the model's bit for bit."""
    if item.failed:
        yield breach(law, item, story_of(item.step), f"{item.step.kind} done")
    elif item.seen is None:
        yield breach(law, item, f"{item.step.kind} returned nothing", f"{_amount(item.bits or b'')}")
    elif item.bits is not None and item.seen.bits != item.bits and not _near(item, item.seen, item.bits):
        yield _unlike(law, item, item.seen, item.bits)


def must_match_owned(law: Law[Any], item: Reduced) -> Iterator[Violation]:
    """The same for a reduced shard, of which only the elements that are no padding are compared."""
    if item.failed or item.seen is None or item.bits is None or len(item.seen.bits) != len(item.bits):
        yield from must_match(law, item)
        return
    owned = owned_mask(item.layout, item.step.rank)
    found = difference(item.seen.bits, item.bits, item.itemsize, owned)
    if found is not None and not _near(item, item.seen, item.bits, owned):
        offset = locate(item.layout, item.step.rank, found.first)
        more = f" (shard offset {found.first}, {found.count} wrong)"
        yield breach(law, item, f"{found.observed} at element {offset}{more}", found.expected, offset)


def stale(item: Result) -> bool:
    """Whether wherever it is wrong the result shows what the parameter held at one time before."""
    if item.seen is None or item.bits is None or len(item.seen.bits) != len(item.bits):
        return False
    itemsize = DTYPES[item.subject.dtype].itemsize
    return any(shows(item.seen.bits, old, item.bits, itemsize) for old in item.earlier)


def _near(item: Result, seen: Seen, bits: bytes, among: Mask | None = None) -> bool:
    """Whether the model rounded, and the result is as near as rounding leaves it."""
    dtype = item.dtype if isinstance(item, Reduced) else item.subject.dtype
    return bool(item.room) and len(seen.bits) == len(bits) and within(seen.bits, bits, dtype, item.room, among)


def _unlike(law: Law[Any], item: Result, seen: Seen, bits: bytes) -> Violation:
    itemsize = DTYPES[item.subject.dtype].itemsize
    if len(seen.bits) != len(bits):
        return breach(law, item, f"{_amount(seen.bits)} of {seen.dtype} in shape {seen.shape}", _amount(bits))
    found = difference(seen.bits, bits, itemsize)
    assert found is not None  # they are known to differ
    text = f"{found.observed} at element {found.first} ({found.count} of {len(bits) // itemsize} wrong)"
    return breach(law, item, text, found.expected, found.first)


def _amount(bits: bytes) -> str:
    return f"{len(bits)} bytes"
