"""What is saved has the parameter's own shape."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.views import Result, breach, saved, story_of


def check(item: Result) -> Iterator[Violation]:
    """The saved tensor is there, in the logical shape and the parameter's dtype."""
    expected = f"{item.subject.dtype} of shape {item.subject.shape}"
    if item.failed:
        yield breach(LAW, item, story_of(item.step), "save done")
    elif item.seen is None:
        yield breach(LAW, item, "not in what was saved", expected)
    elif (item.seen.shape, item.seen.dtype) != (item.subject.shape, item.subject.dtype):
        yield breach(LAW, item, f"{item.seen.dtype} of shape {item.seen.shape}", expected)


LAW: Law[Result] = Law(
    slug="artefact-has-logical-shape",
    family="state",
    sentence="A saved artefact holds each parameter in its logical shape and dtype, without padding.",
    why="Padding depends on the world size, so an artefact that holds it fits one world only. Stripping it by rule, "
    "not by size, removes elements that belong to the parameter.",
    rows=("C1", "C2", "C4", "C6", "L8"),
    needs=("save",),
    over=saved,
    check=check,
)
