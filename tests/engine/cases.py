"""Small cases that several engine tests share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shardproof.case import Case, Group, Operation, Parameter


def case(kinds: Sequence[str], *parameters: Parameter, ranks: Sequence[int] = (0, 1), **changes: Any) -> Case:
    """A program of these kinds on these parameters (one float32 of 5 elements where none is given)."""
    made = Case(
        groups=(Group("main", tuple(ranks)),),
        parameters=parameters or (Parameter("w", (5,)),),
        program=tuple(Operation(kind) for kind in kinds),  # type: ignore[arg-type]  # kinds by name
    )
    return replace(made, **changes)
