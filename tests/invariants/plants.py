"""What one planted fault is."""

from __future__ import annotations

from dataclasses import dataclass

from tests.invariants.good import Break


@dataclass(frozen=True)
class Plant:
    """A fault that a law must refuse: its name, how the good evidence is broken, and where and how the law says so."""

    name: str
    broken: Break
    says: str
    rank: int | None = None
    parameter: str | None = None
    step: int | None = None
    offset: int | None = None


Plants = dict[str, tuple[Plant, ...]]
Unjudged = dict[str, tuple[Break, ...]]
