"""The seam to z3 (de Moura and Bjørner, TACAS 2008): one claim as a question about unbounded integers."""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from shardproof.errors import CouldNotJudge
from shardproof.proofs.claims import Claim
from shardproof.proofs.formulas import Formulas
from shardproof.proofs.logic import Statement
from shardproof.proofs.probes import Values

# Whether a search with products of unknowns ends soon is a matter of luck, so it is started anew now and then.
STARTS = 12
NO_TIME = "no time was left"


class NoAnswerError(Exception):
    """The solver gave up, or had no more time."""


class NoTermsError(Exception):
    """A formula cannot be evaluated on SMT terms."""


def solver_module() -> Any:
    """z3, which carries no types. Raises CouldNotJudge where it is not installed."""
    try:
        return importlib.import_module("z3")
    except ImportError as error:
        raise CouldNotJudge(
            "proofs need the z3 solver, which is not installed; this installs it:\n    pip install 'shardproof[prove]'"
        ) from error


@dataclass(frozen=True)
class Question:
    """Where in its domains does a claim fail? Asked of z3, for all integers.

    Raises NoTermsError, when first asked, where a formula takes no terms.
    """

    z3: Any
    claim: Claim
    formulas: Formulas
    end: float
    """When, by time.monotonic(), all answers must be there."""

    @cached_property
    def context(self) -> Any:
        """Where this question's terms live, alone: how z3 searches depends on what else there is, a proof must not."""
        return self.z3.Context()

    @cached_property
    def terms(self) -> dict[str, Any]:
        """An unbounded integer for each variable."""
        return {name: self.z3.Int(name, self.context) for name in self.claim.domains}

    @cached_property
    def statement(self) -> Statement:
        """The claim about those."""
        try:
            return self.claim.says(self.formulas, **self.terms)
        except (TypeError, ValueError, AttributeError, self.z3.Z3Exception) as error:
            raise NoTermsError(f"a formula takes no SMT terms ({error})") from error

    @cached_property
    def given(self) -> list[Any]:
        """The domains of the variables, and what the claim itself takes as given."""
        domains, terms = self.claim.domains, self.terms
        least = [terms[name] >= domain.least for name, domain in domains.items() if domain.least is not None]
        below = [terms[name] < terms[domain.below] for name, domain in domains.items() if domain.below]
        return [*least, *below, *([] if self.statement.given is None else [self.statement.given])]

    @property
    def failing(self) -> list[Any]:
        """What is given, and the claim's contrary."""
        return [*self.given, self.z3.Not(self.statement.then)]

    def find(self, parts: list[Any], *, effort: int, starts: int = STARTS) -> Values | None:
        """Values for which all parts hold, None where there are none. Raises NoAnswerError.

        `effort`, for each start, is in z3's own units, so that no answer depends on how busy the machine is.
        """
        for seed in range(starts):
            solver = self._solver(parts, effort, seed)
            answer = solver.check()
            if answer == self.z3.unsat:
                return None
            if answer == self.z3.sat:
                return self._values(solver.model())
        raise NoAnswerError(f"the solver gave up: {solver.reason_unknown()}")

    def _solver(self, parts: list[Any], effort: int, seed: int) -> Any:
        left = self.end - time.monotonic()
        if left <= 0:
            raise NoAnswerError(NO_TIME)
        solver = self.z3.Solver(ctx=self.context)
        solver.set(rlimit=effort, timeout=max(1, round(left * 1000)), random_seed=seed)
        solver.add(*parts)
        return solver

    def _values(self, model: Any) -> Values:
        return {name: model.eval(term, model_completion=True).as_long() for name, term in self.terms.items()}

    def at(self, values: Values) -> bool:
        """The claim's terms at one point."""
        pairs = [(term, self.z3.IntVal(values[name], self.context)) for name, term in self.terms.items()]
        return bool(self.z3.is_true(self.z3.simplify(self.z3.substitute(self.statement.whole, *pairs))))
