"""Drawn cases for a test of one's own: every example is run on ranks and judged before the test sees it."""

from __future__ import annotations

import atexit
import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from shardproof.world_sizes import parse_world_sizes

if TYPE_CHECKING:
    from shardproof.engine import Engine

Test = Callable[..., None]


def given_cases(
    implementation: str, *, world_sizes: str = "1-4", examples: int = 100, only: Sequence[str] = ()
) -> Callable[[Test], Test]:
    """Decorate a test that takes `verdict`: it is called with the verdict of one drawn case after another.

    `world_sizes` as on the command line; `only` are slugs of the laws to judge (none: all). Hypothesis makes a failing
    case smaller and prints it; the test's other arguments are pytest's fixtures as usual. Raises UsageError for other
    world sizes and, when the test runs, where `implementation` is none.
    """

    def decorate(test: Test) -> Test:
        from hypothesis import HealthCheck, given, settings
        from hypothesis import strategies as st

        from shardproof.strategies import cases

        sizes = parse_world_sizes(world_sizes, where="given_cases")
        # A rank more than the largest group has lets every group start elsewhere than at rank 0.
        pool_size = max(sizes) + 1

        signature = _with_case(test)

        def drawn(*values: Any, **named: Any) -> None:
            arguments = signature.bind(*values, **named).arguments
            verdict = engine_of(implementation, pool_size).judge(arguments.pop("case"), only=only)
            test(verdict=verdict, **arguments)

        drawn.__name__, drawn.__doc__, drawn.__module__ = test.__name__, test.__doc__, test.__module__
        drawn.__qualname__ = test.__qualname__
        drawn.__signature__ = signature  # type: ignore[attr-defined]  # how inspect is told of a signature
        strategy = st.deferred(
            lambda: cases(engine_of(implementation, pool_size).description, sizes, pool_size=pool_size)
        )
        # A round trip to ranks is slow for Hypothesis, and the first one starts them.
        checked = settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))(drawn)
        return given(case=strategy)(checked)

    return decorate


@lru_cache(maxsize=8)
def engine_of(implementation: str, pool_size: int) -> Engine:
    """One engine an implementation and pool size, for as long as the process lives."""
    from shardproof.engine import Engine

    engine = Engine(implementation, pool_size=pool_size)
    atexit.register(engine.close)
    return engine


def _with_case(test: Test) -> inspect.Signature:
    """The test's signature with `case` in the place of `verdict`."""
    signature = inspect.signature(test)
    if "verdict" not in signature.parameters:
        raise TypeError(f"{test.__name__} takes {signature}, expected an argument named verdict")
    renamed = [
        parameter.replace(name="case") if name == "verdict" else parameter
        for name, parameter in signature.parameters.items()
    ]
    return signature.replace(parameters=renamed)
