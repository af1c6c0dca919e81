"""Registrations that must be refused: one small case of every kind of difference between ranks.

A check that looks at too little lets one kind pass and refuses all others, so that each has to be tried for itself.
Drawn at random, seven kinds need a fifth of all cases to show within the first 25; in turn, they need seven cases.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from shardproof.case import Case, Divergence, Group, Operation, Parameter
from shardproof.strategies import simplest_layout

if TYPE_CHECKING:
    from shardproof.engine import Description

# One after so many drawn cases, until each was tried.
EVERY = 2
_SHAPE = (2, 3)
_ONE, _TWO = (Parameter("p0", _SHAPE),), (Parameter("p0", _SHAPE), Parameter("p1", _SHAPE))


def refusals(description: Description, world_sizes: Collection[int]) -> tuple[Case, ...]:
    """None where nothing is registered, or no world size has ranks that could differ."""
    several = [size for size in sorted(world_sizes) if size > 1]
    if not several or "register" not in description.offers:
        return ()
    size = several[0]
    last = size - 1
    # Two parameters that are alike differ in order by their ids alone; a shape turned round, by nothing but itself.
    kinds = (
        (_ONE, (Divergence(last, "dtype", "p0", "int32"),)),
        (_ONE, (Divergence(last, "shape", "p0", _SHAPE[::-1]),)),
        (_TWO, (Divergence(last, "order"),)),
        (_ONE, (Divergence(last, "refuses"),)),
        (_ONE, (Divergence(last, "shard_numel", "p0", 1),)),
        (_ONE, tuple(Divergence(rank, "shard_numel", "p0", 1) for rank in range(size))),
        (_TWO, (Divergence(last, "missing", "p1"),)),
    )
    groups, program = (Group("main", tuple(range(size))),), (Operation("register"),)
    layout = simplest_layout(description, size)
    return tuple(Case(groups, parameters, program, layout, differ) for parameters, differ in kinds)
