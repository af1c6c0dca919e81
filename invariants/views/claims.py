"""What an implementation says of its own layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from invariants.evidence import Claim, Evidence, Place, Subject
from invariants.law import Law, Violation
from invariants.once import picker
from invariants.views.common import by_index, story_of
from reference import InBucket, Layout


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


def placed(evidence: Evidence) -> Iterator[Claims]:
    """The claims that say, on some rank, where in a buffer of buckets the parameter lies."""
    return (item for item in claims(evidence) if any(claim.place is not None for _, claim in item.ranked))


@dataclass(frozen=True, slots=True)
class Placed:
    """What one rank says of all parameters of one buffer, in the order in which they lie there."""

    index: int
    rank: int
    parameters: tuple[tuple[Subject, Place], ...]

    @property
    def buckets(self) -> tuple[tuple[int, int, Subject], ...]:
        """Start and end of each bucket by rising start, with the first parameter in it."""
        found: dict[tuple[int, int], Subject] = {}
        for subject, place in self.parameters:
            found.setdefault((place.low, place.high), subject)
        return tuple((low, high, found[low, high]) for low, high in sorted(found))

    def breach(self, law: Law[Any], subject: Subject, observed: str, expected: str) -> Violation:
        """A violation by this rank's claims, about one parameter."""
        return Violation(law.slug, observed, expected, self.rank, subject.id, self.index)


@picker
def buffers(evidence: Evidence) -> Iterator[Placed]:
    """One item a rank and buffer where a `layout` step was asked for, and answered for, all parameters in it.

    Parameters of one dtype share a buffer, a tied one with the one that it is tied to.
    """
    own = [one for one in evidence.subjects.values() if one.tied_to is None]
    for index, steps in by_index(evidence).items():
        for step in steps if steps[0].kind == "layout" else ():
            together: dict[str, list[tuple[Subject, Place | None]]] = {}
            for subject in own:
                claim = step.claims.get(subject.id)
                if isinstance(subject.layouts.get(step.world_size), InBucket):
                    together.setdefault(subject.dtype, []).append((subject, claim.place if claim else None))
            for parameters in together.values():
                known = tuple((subject, place) for subject, place in parameters if place is not None)
                if len(known) == len(parameters):
                    yield Placed(index, step.rank, known)
