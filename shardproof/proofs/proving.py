"""Proves or refutes claims for every integer of their domains. A proof is about the very formulas the model runs.

A formula is trusted as far as its terms say what its ints say, which is compared at many points; and a refutation
only stands where plain ints break the claim as well.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from shardproof.proofs.claims import Claim
from shardproof.proofs.exhaustive import try_all
from shardproof.proofs.formulas import Formula, Formulas, definition, noted
from shardproof.proofs.probes import Values, points
from shardproof.proofs.solver import NO_TIME, NoAnswerError, NoTermsError, Question, solver_module

Outcome = Literal["proved", "refuted", "unknown"]

# Past the sizes that are tried one by one, a counterexample is looked for below these bounds first.
BOUNDS = (2**10, 2**20, 2**33, 2**63)
# Efforts in z3's units, about half a million a second, for one start of a search.
CLAIM_EFFORT = 250_000
LOOK_EFFORT = 20_000  # for a smaller counterexample; without an answer the larger one stands
COMPARED_POINTS = 40


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Values of the claim's variables for which plain ints break it, and what each formula gives for them."""

    values: Mapping[str, int]
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """What became of one claim. `reason` says why the outcome is unknown."""

    slug: str
    sentence: str
    formulas: tuple[str, ...]
    outcome: Outcome
    milliseconds: float
    counterexample: Counterexample | None = None
    reason: str = ""


def prove(claims: Iterable[Claim], formulas: Formulas | None = None, *, seconds: float = 50.0) -> Iterator[Proof]:
    """Judge each claim in turn; all together take about `seconds` at most, and what does not fit in is unknown.

    Raises CouldNotJudge where z3 is not installed.
    """
    z3 = solver_module()
    end = time.monotonic() + seconds
    for claim in claims:
        yield _proof(Question(z3, claim, formulas or Formulas(), end))


def holds(claim: Claim, formulas: Formulas, values: Values) -> bool:
    """The claim at one point, in plain ints."""
    return bool(claim.says(formulas, **values).whole)


def _proof(question: Question) -> Proof:
    started = time.monotonic()
    claim, formulas = question.claim, question.formulas
    outcome, values, reason = _decided(question)
    used, steps = _explained(claim, formulas, values or points(claim)[0])
    return Proof(
        claim.slug,
        claim.sentence,
        used,
        outcome,
        (time.monotonic() - started) * 1000,
        Counterexample(values, steps) if values else None,
        reason,
    )


def _explained(claim: Claim, formulas: Formulas, values: Values) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The definitions of the formulas that the claim uses, and what they give at one point: "name(1, 2) = 3"."""
    used: dict[str, None] = {}
    steps: dict[str, None] = {}

    def note(formula: Formula, arguments: tuple[Any, ...], result: Any) -> None:
        used[definition(formula)] = None
        steps[f"{formula.__name__}({', '.join(map(str, arguments))}) = {result}"] = None

    claim.says(noted(formulas, note), **values)
    return tuple(used), tuple(steps)


def _decided(question: Question) -> tuple[Outcome, Values | None, str]:
    """The outcome, the values that break the claim, and why nothing is known."""
    if time.monotonic() >= question.end:
        return "unknown", None, NO_TIME
    try:
        differs = _differs(question)
        if differs:
            return "unknown", None, f"a formula says one thing to SMT terms and another to ints, at {differs}"
        if question.find(question.given, effort=CLAIM_EFFORT) is None:
            return "unknown", None, "nothing satisfies what the claim takes as given, so it says nothing"
        values = question.find(question.failing, effort=CLAIM_EFFORT)
    except (NoAnswerError, NoTermsError) as error:
        values, reason = _searched(question), str(error)
        return ("refuted", values, "") if values else ("unknown", None, reason)
    if values is None:
        return "proved", None, ""
    values = _small(question, values)
    if holds(question.claim, question.formulas, values):
        return "unknown", None, f"the solver's counterexample {values} does not break the claim in ints"
    return "refuted", values, ""


def _differs(question: Question) -> Values | None:
    """A point at which terms and ints say different things, as they do where a formula branches on a value."""
    tried = points(question.claim)
    some = tried[:: max(1, len(tried) // COMPARED_POINTS)]
    said = ((point, holds(question.claim, question.formulas, point)) for point in some)
    return next((point for point, truth in said if question.at(point) != truth), None)


def _searched(question: Question) -> Values | None:
    """A point at which plain ints break the claim, for formulas that the solver cannot judge."""
    tried = points(question.claim)
    return next((point for point in tried if not holds(question.claim, question.formulas, point)), None)


def _small(question: Question, values: Values) -> Values:
    """A counterexample that a person can follow: the first of the small sizes, else each value as low as it goes."""
    (trial,) = try_all([question.claim], question.formulas)
    return trial.counterexample or _lowered(question, values)


def _lowered(question: Question, values: Values) -> Values:
    """A counterexample under the lowest bound that has one, then each value as low as it goes."""
    terms, domains = question.terms, question.claim.domains
    for bound in BOUNDS:
        lower = _look(question, [part for term in terms.values() for part in (term <= bound, term >= -bound)])
        if lower:
            values = lower
            break
    settled: list[Any] = []
    for name, term in terms.items():
        low = domains[name].least
        while low is not None and low < values[name]:
            middle = (low + values[name]) // 2
            lower = _look(question, [*settled, term <= middle])
            values, low = (lower, low) if lower else (values, middle + 1)
        settled.append(term == values[name])
    return values


def _look(question: Question, parts: list[Any]) -> Values | None:
    """A counterexample for which the parts hold as well, None where none is found in a short time."""
    try:
        return question.find([*question.failing, *parts], effort=LOOK_EFFORT, starts=1)
    except NoAnswerError:
        return None
