"""Ranks that register different things are told so."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import Evidence
from invariants.law import Law, Violation
from invariants.views import Registration, brief, refuses, registrations, step_breach, story_of


def over(evidence: Evidence) -> Iterator[Registration]:
    """Registrations that must be refused."""
    return (item for item in registrations(evidence) if item.expected.wanted == "refuse")


def check(item: Registration) -> Iterator[Violation]:
    """No rank accepts."""
    for answer in item.answers:
        if not refuses(answer):
            yield step_breach(LAW, answer, story_of(answer), f"refused: {brief(item.expected.reason)}")


LAW: Law[Registration] = Law(
    slug="uniform-manifest",
    family="registration",
    sentence="Ids, their number and order, shapes, dtypes and shard lengths are the same on every rank, or "
    "registration is refused.",
    why="A check that compares less lets ranks communicate about different tensors: values are swapped, lengths do "
    "not fit, or a rank waits for a collective that no other rank will ever issue.",
    rows=("R3", "R4", "R5", "R6", "R9"),
    needs=("register",),
    over=over,
    check=check,
)
