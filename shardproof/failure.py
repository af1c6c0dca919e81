"""One broken law, with all that is needed to tell of it and to see it again."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from invariants import Evidence, Law, Violation
from shardproof.case import Case


@dataclass(frozen=True, slots=True)
class Failure:
    """A law that an implementation breaks, shown by one case.

    `title` is the law in a sentence and `message` the first violation in one line. `violations` come in the order
    in which they happened. `replay` is the command that runs the case again.
    """

    law: str
    title: str
    message: str
    violations: tuple[Violation, ...]
    case: Case
    evidence: Evidence
    replay: str
    implementation: str

    @property
    def first(self) -> Violation:
        """The violation that happened first."""
        return self.violations[0]

    @property
    def identity(self) -> str:
        """What two failures share that are the same fault: neither the case nor its values are part of it."""
        return f"{self.implementation}:{self.law}"


def failure_of(
    law: Law[Any],
    violations: Iterable[Violation],
    *,
    case: Case,
    evidence: Evidence,
    implementation: str,
    replay: str,
) -> Failure:
    """The failure that these violations of one law make. Raises ValueError where there are none."""
    ordered = tuple(sorted(violations, key=_happened))
    if not ordered:
        raise ValueError(f"violations of {law.slug}: observed none, expected at least one")
    return Failure(
        law=law.slug,
        title=law.sentence,
        message=message_of(ordered[0]),
        violations=ordered,
        case=case,
        evidence=evidence,
        replay=replay,
        implementation=implementation,
    )


def message_of(violation: Violation) -> str:
    """A violation in one line: observed, expected, and where as far as it is known."""
    where = ", ".join(
        f"{name} {value}"
        for name, value in (
            ("rank", violation.rank),
            ("parameter", violation.parameter),
            ("step", violation.step),
            ("element", violation.offset),
        )
        if value is not None
    )
    found = f"observed {violation.observed}, expected {violation.expected}"
    return f"{found} [{where}]" if where else found


def _happened(violation: Violation) -> tuple[int, int, int]:
    """By step, rank and element; what is not known comes last."""
    return tuple(  # type: ignore[return-value]  # three of them
        sys.maxsize if place is None else place for place in (violation.step, violation.rank, violation.offset)
    )
