"""When one rank refuses, all do."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import Evidence
from invariants.law import Law, Violation
from invariants.views import Registration, brief, refuses, registrations, step_breach, story_of


def over(evidence: Evidence) -> Iterator[Registration]:
    """Registrations over several ranks that some rank refused."""
    return (item for item in registrations(evidence) if item.refusals and item.answers[0].world_size > 1)


def check(item: Registration) -> Iterator[Violation]:
    """Every rank refuses, and with the same kind of error."""
    first = item.refusals[0]
    kind = first.error.partition(":")[0]
    for answer in item.answers:
        if not refuses(answer):
            expected = f"refused, as on rank {first.rank}: {brief(first.error)}"
            yield step_breach(LAW, answer, story_of(answer), expected)
        elif answer.error.partition(":")[0] != kind:
            yield step_breach(LAW, answer, story_of(answer), f"{kind}, as on rank {first.rank}")


LAW: Law[Registration] = Law(
    slug="refused-everywhere",
    family="registration",
    sentence="What one rank refuses, every rank refuses, with the same kind of error.",
    why="A rank that raises alone leaves its peers in a collective that never ends, and a program that handles the "
    "error on one rank goes on with another state than its peers.",
    rows=("R7", "R9"),
    needs=("register",),
    over=over,
    check=check,
)
