"""A broken law as an exception, of a type of its own for each law.

Shrinking goes by type: a case that breaks another law is another failure, not a smaller form of this one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from invariants.catalogue import find
from invariants.law import Law, Violation


class LawBroken(AssertionError):  # noqa: N818  # it is a finding, and reads as one
    """A law does not hold. `law` is its slug; `violations` say where."""

    law: str

    def __init__(self, violations: Sequence[Violation]) -> None:
        """The message is the law's sentence and one line a violation."""
        self.violations = tuple(violations)
        super().__init__("\n  ".join([f"{self.law}: {find(self.law).sentence}", *map(str, self.violations)]))

    def __reduce__(self) -> tuple[Callable[..., LawBroken], tuple[Any, ...]]:
        """By slug: the type itself has no place in a module."""
        return _rebuild, (self.law, self.violations)


def broken(law: Law[Any]) -> type[LawBroken]:
    """The exception type of that law: the same one on every call."""
    return _type(law.slug)


@cache
def _type(slug: str) -> type[LawBroken]:
    name = "".join(part.capitalize() for part in slug.split("-")) + "Broken"
    return type(name, (LawBroken,), {"law": slug, "__doc__": find(slug).sentence, "__module__": __name__})


def _rebuild(slug: str, violations: Sequence[Violation]) -> LawBroken:
    return _type(slug)(violations)
