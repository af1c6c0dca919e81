"""Hypothesis, driven: it owns the draws, and whoever takes the cases says when there were enough."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from shardproof.case import Case

if TYPE_CHECKING:
    from shardproof.engine import Description


class Enough(BaseException):
    """Leaves Hypothesis at once, from inside a case. Not an Exception, which it would take for a failing case."""


def draw(
    take: Callable[[Case], None], description: Description, world_sizes: Collection[int], pool_size: int, seed: int
) -> None:
    """Call `take` with one drawn case after another until it raises Enough, or there is no other case to draw.

    Whatever else it raises comes out. The same seed gives the same cases.
    """
    from hypothesis import HealthCheck, Phase, Verbosity, given, settings
    from hypothesis import seed as seeded

    from shardproof.strategies import cases

    raised: list[Exception] = []

    @seeded(seed)
    @settings(
        max_examples=10**9,
        database=None,
        deadline=None,
        phases=(Phase.generate,),  # what is found is made smaller by `shrinking`, which knows what a case is
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        print_blob=False,
    )
    @given(cases(description, world_sizes, pool_size=pool_size))
    def every(case: Case) -> None:
        try:
            take(case)
        except Exception as error:
            raised.append(error)
            raise Enough from error

    try:
        every()
    except Enough:
        if raised:
            raise raised[0] from None
