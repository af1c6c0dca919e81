"""Counting starts anew with every operation."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.views import Counted, breach, counted


def check(item: Counted) -> Iterator[Violation]:
    """The same operation on the same parameters leaves the same counts."""
    for name, before in item.before.items():
        count = item.step.counters.get(name)
        if count != before:
            observed = f"{name} = {count} after {item.step.kind}"
            yield breach(LAW, item, observed, f"{before}, as after the same operation before")


LAW: Law[Counted] = Law(
    slug="counters-reset",
    family="state",
    sentence="What an implementation counts within one operation starts from the same value every time.",
    why="A bucket's element count that is never set back makes the second step flush too early, and the sizes it then "
    "sends belong to no tensor.",
    rows=("N6",),
    needs=("reduce",),
    over=counted,
    check=check,
)
