"""Inputs are read, not written."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.views import Touched, step_breach, touched


def check(item: Touched) -> Iterator[Violation]:
    """No input has changed."""
    for id in item.step.mutated:
        yield step_breach(LAW, item.step, f"the input changed during {item.step.kind}", "inputs only read", id)


LAW: Law[Touched] = Law(
    slug="input-not-mutated",
    family="gather",
    sentence="An operation leaves its inputs as they were: full parameters, shards that it only sends, gradients.",
    why="A gradient that is divided in place is divided again on the next use. Where that happens only for sizes that "
    "divide evenly, the same code is right for one parameter and wrong for the next.",
    rows=("N9",),
    needs=(),
    over=touched,
    check=check,
)
