"""The pytest plugin: runs functions of a test module on ranks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from shardproof.errors import UsageError
from shardproof.ranks import Pool, RankReport
from shardproof.ranks.wire import Blob

LARGEST_WORLD = 8
_DEADLINE = 30.0  # seconds; a test that ends well does not wait for it, and a busy machine is slow


@dataclass(slots=True)
class Ranks:
    """Runs entries on the ranks of one pool, which starts with the first run and grows with the worlds asked for."""

    pool: Pool | None = None

    def run(
        self,
        entry: str | Callable[..., Any],
        payload: object = None,
        *,
        world_size: int = 2,
        blobs: Sequence[Blob] = (),
        deadline: float = _DEADLINE,
    ) -> tuple[RankReport, ...]:
        """Run `entry` on ranks 0 to `world_size` - 1: a report for each.

        `entry` is a function at the top level of a module, called as function(context, payload, blobs) and
        returning (JSON value, blobs), or its name as `Pool.run` takes it.
        """
        name = entry if isinstance(entry, str) else entry_name(entry)
        return self._pool(world_size).run(name, payload, blobs, ranks=range(world_size), deadline=deadline)

    def values(
        self,
        entry: str | Callable[..., Any],
        payload: object = None,
        *,
        world_size: int = 2,
        blobs: Sequence[Blob] = (),
        deadline: float = _DEADLINE,
    ) -> list[Any]:
        """What each rank returned, as `run` does it. Fails the test with every rank's story where one did not."""
        reports = self.run(entry, payload, world_size=world_size, blobs=blobs, deadline=deadline)
        if any(report.ended != "done" for report in reports):
            pytest.fail("\n".join(report.story for report in reports), pytrace=False)
        return [report.value for report in reports]

    def close(self) -> None:
        """End the pool."""
        if self.pool is not None:
            self.pool.close()

    def _pool(self, world_size: int) -> Pool:
        if not 1 <= world_size <= LARGEST_WORLD:
            raise UsageError("unusable world size", observed=str(world_size), expected=f"1 to {LARGEST_WORLD}")
        if self.pool is None:
            self.pool = Pool(world_size, preload=("pytest",))
        if self.pool.world_size < world_size:
            self.pool.resize(world_size)
        return self.pool


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the conformance suite."""
    group = parser.getgroup("shardproof")
    group.addoption(
        "--impl", default="gpu_impl", help="what shardproof.conformance judges: a known name or pkg.mod:attr"
    )
    group.addoption("--shardproof-profile", default="default", help="how long it searches: smoke, default or nightly")


def entry_name(function: Callable[..., Any]) -> str:
    """The name under which ranks find a function: the file that defines it, and where in it."""
    file, name = inspect.getsourcefile(function), function.__qualname__
    if file is None or not name.replace(".", "").isidentifier():
        raise UsageError("ranks cannot find this function", observed=name, expected="one at the top level of a file")
    return f"{file}:{name}"


@pytest.fixture(scope="session")
def _ranks_of_session() -> Iterator[Ranks]:
    ranks = Ranks()
    yield ranks
    ranks.close()


@pytest.fixture
def ranks(_ranks_of_session: Ranks) -> Ranks:
    """Runs functions on real ranks; the pool is kept for the session, and replaced after a run that broke it."""
    return _ranks_of_session
