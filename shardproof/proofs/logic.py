"""Connectives that bools, NumPy bool arrays and SMT propositions understand alike; and what a claim says with them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import Any, TypeAlias

# A bool, a NumPy bool array or an SMT proposition.
Truth: TypeAlias = Any


def all_of(*parts: Truth) -> Truth:
    """Every part holds."""
    return reduce(and_, parts)


def any_of(*parts: Truth) -> Truth:
    """At least one part holds."""
    return reduce(or_, parts)


def negated(part: Truth) -> Truth:
    """The part does not hold. Not spelled `~`, which gives -2 for True."""
    return part ^ True


def within(low: Any, value: Any, end: Any) -> Truth:
    """low <= value < end."""
    return (low <= value) & (value < end)


@dataclass(frozen=True, slots=True)
class Statement:
    """Wherever `given` holds, `then` holds. None: nothing is given but the variables' domains."""

    then: Truth
    given: Truth | None = None

    @property
    def whole(self) -> Truth:
        """As one truth."""
        return self.then if self.given is None else negated(self.given) | self.then
