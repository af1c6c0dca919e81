"""0-dim state is saved and loaded as it is."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.views import Restored, breach, restored


def check(item: Restored) -> Iterator[Violation]:
    """After a load every scalar has the value it had at the save."""
    for name, value in item.saved.items():
        found = item.step.scalars.get(name)
        if repr(found) != repr(value):  # repr tells -0.0 from 0.0, and NaN equals itself
            observed = f"{name} = {found}" if name in item.step.scalars else f"no {name}"
            yield breach(LAW, item, f"{observed} after the load", f"{value}, as at the save")


LAW: Law[Restored] = Law(
    slug="scalars-untouched",
    family="state",
    sentence="Scalar state passes through save and load unchanged, at any world size.",
    why="An optimizer's step count has nothing to shard. Sliced or padded like a parameter it is lost on most ranks, "
    "and the next step is corrected as if it were the first.",
    rows=("C4",),
    needs=("save", "load"),
    over=restored,
    check=check,
)
