"""What an implementation says of its own layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from invariants.evidence import Claim, Evidence, Subject
from invariants.law import Law, Violation
from invariants.once import picker
from invariants.views.common import by_index, story_of
from reference import Layout


@dataclass(frozen=True, slots=True)
class Claims:
    """Every rank's claim about one parameter, beside the model's layout. None: that rank's `problems` says why."""

    index: int
    subject: Subject
    layout: Layout
    claims: tuple[Claim | None, ...]
    problems: tuple[str, ...]

    @property
    def ranked(self) -> Iterator[tuple[int, Claim]]:
        """Each rank that made a claim, with it."""
        return ((rank, claim) for rank, claim in enumerate(self.claims) if claim is not None)

    def breach(
        self, law: Law[Any], rank: int | None, observed: str, expected: str, offset: int | None = None
    ) -> Violation:
        """A violation by one rank's claim, or (None) by all of them together."""
        return Violation(law.slug, observed, expected, rank, self.subject.id, self.index, offset)


@picker
def claims(evidence: Evidence) -> Iterator[Claims]:
    """One item a parameter and `layout` step that every rank of the group performed, or tried to."""
    for index, steps in by_index(evidence).items():
        if steps[0].kind != "layout" or len(steps) < steps[0].world_size:
            continue
        for id in steps[0].parameters:
            subject = evidence.subjects.get(id)
            layout = subject.layouts.get(steps[0].world_size) if subject else None
            if subject is None or layout is None:
                continue
            said = tuple(step.claims.get(id) for step in steps)
            yield Claims(index, subject, layout, said, tuple(story_of(step) for step in steps))


def claims_owing(slug: str) -> Callable[[Evidence], Iterator[Claims]]:
    """The claims about layouts that owe this law, where every rank made one."""

    def over(evidence: Evidence) -> Iterator[Claims]:
        return (item for item in claims(evidence) if slug in item.layout.owes and None not in item.claims)

    return over
