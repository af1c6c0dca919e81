"""Five ranks that find the adapters imported, so that groups of up to four need not start at rank 0."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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
