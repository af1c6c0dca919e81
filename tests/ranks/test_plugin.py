"""The `ranks` fixture: what it takes, and how a test fails by it."""

from __future__ import annotations

from pathlib import Path

import pytest

import shardproof.ranks
from shardproof.errors import UsageError
from shardproof.pytest_plugin import Ranks, entry_name
from shardproof.ranks import Context

HOME = Path(shardproof.ranks.__file__).resolve().parents[2]
Answer = tuple[object, list[bytes]]


def rank_alone(context: Context, payload: object, blobs: object) -> Answer:
    return context.rank, []


def raise_on_one(context: Context, payload: object, blobs: object) -> Answer:
    if context.rank == 1:
        raise ValueError("not here")
    return None, []


def test_an_entry_may_be_a_function_or_its_name(ranks: Ranks) -> None:
    assert ranks.values(rank_alone) == ranks.values(f"{__file__}:rank_alone") == [0, 1]


def test_values_fail_the_test_with_the_story_of_every_rank(ranks: Ranks) -> None:
    with pytest.raises(pytest.fail.Exception) as failure:
        ranks.values(raise_on_one, world_size=3)
    for line in ("rank 0 done after", "rank 1 raised (ValueError: not here) after", "rank 2 done after"):
        assert line in str(failure.value)


def nested() -> object:
    def inner(context: Context, payload: object, blobs: object) -> Answer:
        return None, []

    return inner


@pytest.mark.parametrize("function", [nested(), lambda *_: (None, [])])
def test_a_function_that_ranks_cannot_find_is_refused(function: Answer) -> None:
    with pytest.raises(UsageError, match="at the top level of a file"):
        entry_name(function)  # type: ignore[arg-type]


@pytest.mark.parametrize("world_size", [-1, 0, 9])
def test_world_sizes_are_1_to_8(ranks: Ranks, world_size: int) -> None:
    with pytest.raises(UsageError, match="1 to 8"):
        ranks.run(raise_on_one, world_size=world_size)


SUITE = """
import os
import pytest

def whoami(context, payload, blobs):
    return [context.rank, os.getppid()], ()

@pytest.mark.parametrize("world_size", [1, 3])
def test_ranks(ranks, world_size):
    assert [rank for rank, _ in ranks.values(whoami, world_size=world_size)] == list(range(world_size))
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_suite_of_one_s_own_gets_its_ranks(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the plugin may be installed, and is loaded by name here
    monkeypatch.setenv("PYTHONPATH", str(HOME))
    pytester.makepyfile(test_own=SUITE)
    ran = pytester.runpytest_subprocess("-p", "shardproof.pytest_plugin", "-p", "xdist.plugin", "-n", workers)
    ran.assert_outcomes(passed=2)
