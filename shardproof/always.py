"""Small cases that every search tries early, in turn, because each shows what no other does and is drawn too seldom.

A registration check that looks at too little lets one kind of difference between ranks pass and refuses all others.
Drawn at random, seven kinds need a fifth of all cases to show within the first 25; in turn, they need seven cases.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from shardproof.case import Case, Divergence, Group, LayoutSpec, Operation, Parameter
from shardproof.layouts import least_dims
from shardproof.strategies import simplest_layout

if TYPE_CHECKING:
    from shardproof.engine import Description

# One after so many drawn cases, until each was tried.
EVERY = 2
# Past what a float counts exactly and past every 32 bits, and no multiple of a small world size.
_VAST = Parameter("p0", (2**61 + 1,))
_SHAPE = (2, 3)
_ONE, _TWO = (Parameter("p0", _SHAPE),), (Parameter("p0", _SHAPE), Parameter("p1", _SHAPE))


def always(description: Description, world_sizes: Collection[int]) -> tuple[Case, ...]:
    """Each kind of registration that must be refused, and a layout of what none can hold, as far as they are offered.

    At the smallest world size in which ranks can differ, else at the smallest.
    """
    size = min((size for size in world_sizes if size > 1), default=min(world_sizes))
    layout, main = simplest_layout(description, size), (Group("main", tuple(range(size))),)
    refused = size > 1 and "register" in description.offers
    cases = list(_refusals(main, layout)) if refused else []
    if "layout" in description.offers and least_dims(layout) < 2:
        cases.insert(2, Case(main, (_VAST,), (Operation("layout"),), layout))
    return tuple(cases)


def _refusals(main: tuple[Group, ...], layout: LayoutSpec) -> tuple[Case, ...]:
    """Parameters that are alike differ in order by their ids alone; a shape turned round, by nothing but itself."""
    ranks = range(len(main[0].ranks))
    last = ranks[-1]
    kinds = (
        (_ONE, (Divergence(last, "dtype", "p0", "int32"),)),
        (_ONE, (Divergence(last, "shape", "p0", _SHAPE[::-1]),)),
        (_TWO, (Divergence(last, "order"),)),
        (_ONE, (Divergence(last, "refuses"),)),
        (_ONE, (Divergence(last, "shard_numel", "p0", 1),)),
        (_ONE, tuple(Divergence(rank, "shard_numel", "p0", 1) for rank in ranks)),
        (_TWO, (Divergence(last, "missing", "p1"),)),
    )
    program = (Operation("register"),)
    return tuple(Case(main, parameters, program, layout, differ) for parameters, differ in kinds)
