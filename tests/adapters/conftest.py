"""Five ranks that find the adapters imported, so that groups of up to four need not start at rank 0; and engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from shardproof.engine import Engine
from shardproof.pytest_plugin import Ranks
from shardproof.ranks import Pool

POOL_SIZE = 5
ADAPTERS = ("fsdp2", "dtensor", "fsdp1", "list_all_gather")


@pytest.fixture(scope="session")
def five_ranks() -> Iterator[Ranks]:
    pool = Pool(
        POOL_SIZE,
        preload=("pytest", *(f"shardproof.adapters.{name}" for name in ADAPTERS), "torch._dynamo"),
    )
    ranks = Ranks(pool)
    yield ranks
    ranks.close()


# Seconds. One pinned case of the second waits for ever, so that it takes all there are.
DEADLINE, DEADLINES = 60.0, {"fsdp2_resharded_in_part": 10.0}


@pytest.fixture(scope="session")
def engine_of() -> Iterator[Callable[[str], Engine]]:
    """One engine a name, for all tests: starting one takes longer than most cases."""
    with ExitStack() as opened:
        yield cache(
            lambda name: opened.enter_context(Engine(name, pool_size=4, deadline=DEADLINES.get(name, DEADLINE)))
        )
