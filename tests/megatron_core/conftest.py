"""Where Megatron-Core is not installed, every test here says "could not judge" and how to install it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from shardproof.implementations import KNOWN
from shardproof.pytest_plugin import Ranks
from shardproof.ranks import Pool


@pytest.fixture(scope="session", autouse=True)
def _needs_megatron() -> None:
    if find_spec("megatron") is None:
        pytest.skip(f"could not judge: {KNOWN['megatron_core'].install}")


@pytest.fixture(scope="session")
def three_ranks(_needs_megatron: None) -> Iterator[Ranks]:
    ranks = Ranks(Pool(3, preload=("pytest", "shardproof.adapters.megatron_core")))
    yield ranks
    ranks.close()
