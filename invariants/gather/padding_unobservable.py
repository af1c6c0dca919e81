"""Nothing that can be seen depends on what lies in the padding."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import Step
from invariants.law import Law, Violation
from invariants.views import Twice, step_breach, story_of, twice

# Shards that register or load return hold the padding itself.
_SHOWS_PADDING = {"register", "load"}


def check(item: Twice) -> Iterator[Violation]:
    """The same steps end the same way and return the same bits and numbers under both poisons."""
    again = {step.index: step for step in item.again.steps}
    for step in item.story.steps:
        if step.index in again and step.index < item.until:
            yield from _differences(step, again[step.index])
    if item.story.ended != item.again.ended and not item.again.steps:
        observed = f"the rank {item.again.ended} under another poison"
        yield Violation(LAW.slug, observed, item.story.ended, item.story.pool_rank)


def _differences(step: Step, again: Step) -> Iterator[Violation]:
    if step.outcome != again.outcome:
        yield step_breach(LAW, step, f"{story_of(again)} under another poison", story_of(step))
    elif repr(step.scalar) != repr(again.scalar):  # repr tells apart what == does not, and NaN equals itself
        yield step_breach(LAW, step, f"{step.kind} {again.scalar} under another poison", str(step.scalar))
    for id, seen in step.results.items() if step.kind not in _SHOWS_PADDING else ():
        if id in again.results and again.results[id].bits != seen.bits:
            yield step_breach(LAW, step, f"other bits of {step.kind} under another poison", "the same bits", id)


LAW: Law[Twice] = Law(
    slug="padding-unobservable",
    family="gather",
    sentence="No result, number or outcome depends on what lies in padding or in memory that nobody has written.",
    why="Fresh memory is often zero, which hides that it is read. Running a case twice with different contents there "
    "shows every read of it, including one that goes into a sum.",
    rows=("G2", "G9", "N2"),
    needs=(),
    over=twice,
    check=check,
)
