"""A pool of NCCL ranks; where this machine has none, every test here says "could not judge" and why."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shardproof.errors import CouldNotJudge
from shardproof.ranks import Pool

WORLD_SIZE = 4


@pytest.fixture(scope="session")
def cuda_pool() -> Iterator[Pool]:
    with Pool(WORLD_SIZE, device="cuda", preload=("gpu_impl",)) as pool:
        try:
            pool.run("tests.gpu.entries:nothing", deadline=120.0)
        except CouldNotJudge as reason:
            pytest.skip(f"could not judge: {reason}")
        yield pool
