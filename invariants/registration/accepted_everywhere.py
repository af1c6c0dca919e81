"""What is in order is accepted, on every rank."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.views import Attempt, attempts, breach, brief, story_of


def check(item: Attempt) -> Iterator[Violation]:
    """The operation is done."""
    if item.step.outcome != "done":
        reason = f": {brief(item.reason)}" if item.reason else ""
        yield breach(LAW, item, story_of(item.step), f"{item.step.kind} done{reason}")


LAW: Law[Attempt] = Law(
    slug="accepted-everywhere",
    family="registration",
    sentence="A registration that the policy accepts is accepted on every rank, and so is every operation after it "
    "that returns nothing.",
    why="A scalar, an empty or a frozen parameter is sound input. Refusing it, or failing on one rank only, stops a "
    "training run that has nothing wrong with it.",
    rows=("L7", "R8"),
    needs=("register",),
    over=attempts,
    check=check,
)
