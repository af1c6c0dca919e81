"""The size of a parameter comes from its shape, whatever lies in the gradient's place."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import Evidence, Subject
from invariants.law import Law, Violation
from invariants.views import Registration, registrations, step_breach, story_of


def over(evidence: Evidence) -> Iterator[Registration]:
    """Registrations that must be accepted and hold a parameter without a full-size gradient buffer."""
    for item in registrations(evidence):
        if item.expected.wanted == "accept" and any(_buffer(subject) != "full" for subject in item.subjects):
            yield item


def _buffer(subject: Subject) -> str:
    return "absent" if subject.frozen else subject.grad_buffer


def check(item: Registration) -> Iterator[Violation]:
    """Every rank accepts."""
    found = sorted({_buffer(subject) for subject in item.subjects} - {"full"})
    for answer in item.answers:
        if answer.outcome != "done":
            expected = f"accepted: the gradient buffer may be {' or '.join(found)}, the shape says the size"
            yield step_breach(LAW, answer, story_of(answer), expected)


LAW: Law[Registration] = Law(
    slug="size-from-shape",
    family="registration",
    sentence="A parameter's size is taken from its shape; a gradient buffer may be full-size, as long as a shard, or "
    "missing.",
    why="Frozen parameters have no gradient, and partitioned gradients are shorter than their parameter. Sizes read "
    "from there give false alarms, or lookups that fail.",
    rows=("R2", "R8"),
    needs=("register",),
    over=over,
    check=check,
)
