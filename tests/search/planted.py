"""An engine without ranks: each law is broken in exactly the cases that a plain predicate picks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from invariants import Evidence, Judgement, Law, Violation
from shardproof.case import OPERATIONS, Case
from shardproof.engine import Description
from shardproof.running import Timing, Verdict

Fault = Callable[[Case], bool]

DESCRIPTION = Description(
    name="planted",
    target="planted",
    form="session",
    offers=OPERATIONS,
    promises=(),
    layouts=("flat_padded",),
    alignments=(1,),
    needs_default_group=False,
    doc="A planted fault.",
    torch="none",
    backend="gloo",
)


def describe(**changes: Any) -> Description:
    return replace(DESCRIPTION, **changes)


def law(slug: str) -> Law[Any]:
    return Law(slug, "gather", f"{slug} holds.", "It was planted.", (), (), over=lambda _: (), check=lambda _: iter(()))


@dataclass(frozen=True, slots=True)
class Begun:
    told: Verdict

    def begin(self) -> None:
        """There are no ranks."""

    def wait(self) -> None:
        """Nor anything to wait for."""

    def verdict(self) -> Verdict:
        return self.told


@dataclass(slots=True)
class Planted:
    """`faults` by law. `judged` are the cases it was asked for, `renewed` how often it got fresh ranks.

    `unjudged` laws find nothing in any case. `sampled` picks the cases that run twice where nobody says so.
    """

    faults: Mapping[str, Fault]
    description: Description = DESCRIPTION
    unjudged: Sequence[str] = ()
    sampled: Fault = lambda _: False
    judged: list[Case] = field(default_factory=list)
    renewed: int = 0

    def laws(self) -> tuple[Law[Any], ...]:
        return tuple(law(slug) for slug in (*self.faults, *self.unjudged))

    def prepare(self, case: Case, *, twice: bool | None = None, only: Sequence[str] = ()) -> Begun:
        return Begun(self.judge(case, twice=twice, only=only))

    def judge(self, case: Case, *, twice: bool | None = None, only: Sequence[str] = ()) -> Verdict:
        self.judged.append(case)
        evidence = Evidence(case.world_size, {}, (), ())
        if self.sampled(case) if twice is None else twice:
            evidence = replace(evidence, second=evidence)
        judgements = [self.judgement(slug, case, evidence) for slug in self.faults if not only or slug in only]
        judgements += [Judgement(slug, 0, reason="nothing was seen") for slug in self.unjudged]
        return Verdict(case, evidence, tuple(judgements), Timing(0.0, 0.0))

    def judgement(self, slug: str, case: Case, evidence: Evidence) -> Judgement:
        needs_second = slug.startswith("twice-")
        broken = self.faults[slug](case) and (evidence.second is not None or not needs_second)
        violations = (Violation(slug, "wrong", "right", rank=0, parameter=case.parameters[0].id, step=0),)
        return Judgement(slug, 1, violations if broken else ())

    def renew(self) -> None:
        self.renewed += 1


def kinds(case: Case) -> list[str]:
    return [operation.kind for operation in case.program]
