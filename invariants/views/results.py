"""What operations returned, beside what the model says they must return."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from invariants.bits import difference, owned_mask
from invariants.evidence import Evidence, Seen, Step, Subject
from invariants.law import Law, Violation
from invariants.once import picker
from invariants.views.common import breach, demanded_until, steps_of, story_of
from reference import DTYPES, Layout, locate


@dataclass(frozen=True, slots=True)
class Result:
    """What one rank was given for one parameter (`seen`), and the `bits` the model demands (None: it does not say).

    A step that failed gives one item, for its first parameter, with nothing seen.
    """

    step: Step
    subject: Subject
    layout: Layout
    bits: bytes | None
    seen: Seen | None

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
            yield Result(step, subject, layout, expected.bits(id, step.rank), step.results.get(id))
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
        yield Reduced(step, subject, layout, bits, step.results.get(id), id in waiting)
        if step.outcome != "done":
            return


@dataclass(frozen=True, slots=True)
class Scalar:
    """The number one rank was given, and the one the model says. `subjects`: the parameters it is about."""

    step: Step
    expected: float | None
    subjects: tuple[Subject, ...]
    subject: Subject | None = None


def scalars(*kinds: str) -> Callable[[Evidence], Iterator[Scalar]]:
    """What steps of these kinds returned where the model knows the answer, and those that failed."""

    def over(evidence: Evidence) -> Iterator[Scalar]:
        until = demanded_until(evidence)
        for step in steps_of(evidence, *kinds):
            wanted = evidence.expected[step.index].scalar if step.index < until else None
            if wanted is not None or (step.index < until and step.outcome != "done"):
                yield Scalar(step, wanted, tuple(evidence.subjects.values()))

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
    elif item.bits is not None and item.seen.bits != item.bits:
        yield _unlike(law, item, item.seen, item.bits)


def must_match_owned(law: Law[Any], item: Reduced) -> Iterator[Violation]:
    """The same for a reduced shard, of which only the elements that are no padding are compared."""
    if item.failed or item.seen is None or item.bits is None or len(item.seen.bits) != len(item.bits):
        yield from must_match(law, item)
        return
    found = difference(item.seen.bits, item.bits, item.itemsize, owned_mask(item.layout, item.step.rank))
    if found is not None:
        offset = locate(item.layout, item.step.rank, found.first)
        more = f" (shard offset {found.first}, {found.count} wrong)"
        yield breach(law, item, f"{found.observed} at element {offset}{more}", found.expected, offset)


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
