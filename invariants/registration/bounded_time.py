"""Every rank comes back, in time."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.views import Whole, brief, story_of, wholes

_ENDED = {
    "raised": "raised outside of any operation",
    "exited": "exited",
    "signalled": "was killed by a signal",
    "hung": "did not come back",
}


def check(item: Whole) -> Iterator[Violation]:
    """The rank did not end early, and no operation took longer than the deadline."""
    expected = f"every operation returns or raises, within {item.deadline:g} s"
    if item.story.ended != "done":
        lost = item.lost
        detail = brief(item.story.detail) or _ENDED[item.story.ended]
        yield item.breach(LAW, lost, story_of(lost) if lost else f"the rank {detail}", expected)
    for step in item.story.steps:
        if step.seconds > item.deadline and step.outcome != "lost":
            yield item.breach(LAW, step, f"{step.kind} took {step.seconds:.1f} s", expected)


LAW: Law[Whole] = Law(
    slug="bounded-time",
    family="registration",
    sentence="Every operation ends on every rank in bounded time: with a result or with an error, never with a rank "
    "that hangs, crashes or exits.",
    why="A rank that is lost takes all others with it, and the reason with them. This is what a refusal on some ranks "
    "only, or a different number of collectives, comes to in the end.",
    rows=("R6", "R7", "G12"),
    needs=(),
    over=wholes,
    check=check,
)
