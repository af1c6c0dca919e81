"""Nothing is written next to what an implementation was given."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.views import Touched, step_breach, touched


def check(item: Touched) -> Iterator[Violation]:
    """No guard has changed."""
    for id in item.step.guards:
        observed = f"memory around the input changed during {item.step.kind}"
        yield step_breach(LAW, item.step, observed, "guard bytes intact", id)


LAW: Law[Touched] = Law(
    slug="guard-intact",
    family="gather",
    sentence="Memory around an input is never written.",
    why="A copy of a padded length into an unpadded tensor overruns it. The damage shows up in another tensor, later, "
    "or never.",
    rows=("G1", "G14"),
    needs=(),
    over=touched,
    check=check,
)
