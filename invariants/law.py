"""What a law is, and what it says when it is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, Literal, TypeVar

from invariants.evidence import Evidence

Family = Literal["layout", "registration", "gather", "life", "collectives", "reduction", "state", "promises"]
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Violation:
    """One place where a law does not hold: "observed …, expected … [where]".

    `rank`, `parameter`, `step` and `offset` (element index in the parameter's row-major order) say where, as far
    as they apply. `law` is the slug, and with it the stable identity that shrinking keeps.
    """

    law: str
    observed: str
    expected: str
    rank: int | None = None
    parameter: str | None = None
    step: int | None = None
    offset: int | None = None

    def __str__(self) -> str:
        """One line: what was observed and expected, and where."""
        places = {"rank": self.rank, "parameter": self.parameter, "step": self.step, "element": self.offset}
        where = ", ".join(f"{name} {place}" for name, place in places.items() if place is not None)
        return f"observed {self.observed}, expected {self.expected}" + (f" [{where}]" if where else "")


@dataclass(frozen=True, slots=True)
class Law(Generic[Item]):
    """One invariant.

    `over` picks from the evidence what the law looks at; `check` judges one such item and yields its violations.
    A law whose `over` finds nothing has not been judged. `rows` are rows of the list of known faults. `needs`
    are the operations an implementation must offer for the law to be judged at all.
    """

    slug: str
    family: Family
    sentence: str
    why: str
    rows: tuple[str, ...]
    needs: tuple[str, ...]
    over: Callable[[Evidence], Iterable[Item]]
    check: Callable[[Item], Iterator[Violation]]

    @property
    def is_promise(self) -> bool:
        """Whether the law applies only where an implementation's `promises` names it."""
        return self.family == "promises"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one law says of one run: how many items it judged and where it was broken.

    Zero items is "not judged", never "held"; `reason` then says why.
    """

    law: str
    judged: int
    violations: tuple[Violation, ...] = ()
    reason: str = ""

    @property
    def outcome(self) -> Literal["held", "broken", "not judged"]:
        """The one word for it."""
        if self.violations:
            return "broken"
        return "held" if self.judged else "not judged"


def judge(law: Law[Any], evidence: Evidence) -> Judgement:
    """Apply one law to what was seen."""
    items = tuple(law.over(evidence))
    if not items:
        return _not_judged(law.slug, law.needs)
    return Judgement(law.slug, len(items), tuple([found for item in items for found in law.check(item)]))


@cache
def _not_judged(slug: str, needs: tuple[str, ...]) -> Judgement:
    return Judgement(slug, 0, reason=f"nothing to judge was seen (it looks at: {', '.join(needs) or 'any step'})")
