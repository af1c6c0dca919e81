"""Pools as such: kinds, sizes, replacement, wrong use."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import shardproof.ranks
from shardproof.errors import CouldNotJudge, UsageError
from shardproof.pytest_plugin import entry_name
from shardproof.ranks import Context, Pool, PoolError

Answer = tuple[object, list[bytes]]
HOME = Path(shardproof.ranks.__file__).resolve().parents[2]


def whereabouts(context: Context, payload: list[int], blobs: object) -> Answer:
    """This rank's process and helper, what its group is, and a collective over it."""
    import torch
    import torch.distributed as dist

    group = context.group(payload)
    number = torch.tensor([1])
    dist.all_reduce(number, group=group)
    return {
        "pid": os.getpid(),
        "helper": os.getppid(),
        "sum": number.item(),
        "default": group is dist.group.WORLD,
        "forked": "shardproof.ranks.helper" in sys.modules,
        "wave": "wave" in sys.modules,
    }, []


def end_rank_zero(context: Context, payload: str, blobs: object) -> Answer:
    if context.rank == 0:
        {"raise": lambda: 1 // 0, "exit": lambda: os._exit(3), "abort": os.abort}[payload]()
    return None, []


def end_helper(context: Context, payload: object, blobs: object) -> Answer:
    os.kill(os.getppid(), signal.SIGKILL)
    signal.pause()
    return None, []


def values(pool: Pool, function: Callable[..., Any], payload: object = None, **more: Any) -> list[Any]:
    reports = pool.run(entry_name(function), payload, deadline=30, **more)
    assert all(report.ended == "done" for report in reports), "\n".join(report.story for report in reports)
    return [report.value for report in reports]


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(3, preload=("pytest",)) as made:
        yield made


RANKS = [None, (0,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)]


@pytest.mark.parametrize("ranks", RANKS)
def test_only_the_named_ranks_take_part(pool: Pool, ranks: tuple[int, ...] | None) -> None:
    members = ranks or (0, 1, 2)
    found = values(pool, whereabouts, members, ranks=ranks)
    assert [value["sum"] for value in found] == [len(members)] * len(members)
    assert [report.rank for report in pool.run(entry_name(whereabouts), members, ranks=ranks)] == list(members)


@pytest.mark.parametrize("how", ["raise", "exit", "abort"])
def test_ranks_are_replaced_after_a_bad_end_and_only_then(pool: Pool, how: str) -> None:
    before = values(pool, whereabouts, (0, 1, 2))
    assert values(pool, whereabouts, (0, 1, 2)) == before
    pool.run(entry_name(end_rank_zero), how)
    after = values(pool, whereabouts, (0, 1, 2))
    assert {value["pid"] for value in before}.isdisjoint(value["pid"] for value in after)
    assert before[0]["helper"] == after[0]["helper"]


def test_a_run_in_two_halves_is_the_same_run(pool: Pool) -> None:
    pool.start(entry_name(whereabouts), (0, 2), ranks=(0, 2), deadline=30)
    halves = [report.value for report in pool.finish()]
    assert halves == values(pool, whereabouts, (0, 2), ranks=(0, 2))


def test_ranks_that_answered_in_time_are_heard_however_late_they_are_asked(pool: Pool) -> None:
    values(pool, whereabouts, (0, 1, 2))
    pool.start(entry_name(whereabouts), (0, 1, 2), deadline=0.5)
    time.sleep(1)
    assert [report.ended for report in pool.finish()] == ["done"] * 3


# What is asked of a pool while a run is under way.
BUSY: dict[str, Callable[[Pool], object]] = {
    "run": lambda pool: pool.run(entry_name(whereabouts), (0, 1, 2)),
    "start": lambda pool: pool.start(entry_name(whereabouts), (0, 1, 2)),
    "renew": lambda pool: pool.renew(),
    "resize": lambda pool: pool.resize(2),
}


@pytest.mark.parametrize("name", BUSY)
def test_one_run_at_a_time(pool: Pool, name: str) -> None:
    pool.start(entry_name(whereabouts), (0, 1, 2), deadline=30)
    with pytest.raises(UsageError, match="a run is under way"):
        BUSY[name](pool)
    assert [report.ended for report in pool.finish()] == ["done"] * 3
    with pytest.raises(UsageError, match="no run to finish"):
        pool.finish()


def test_a_pool_closes_in_the_middle_of_a_run() -> None:
    with Pool(2) as pool:
        pool.start(entry_name(end_helper), deadline=30)
    with pytest.raises(UsageError, match="no run to finish"):
        pool.finish()


def open_files(pool: Pool) -> list[int]:
    helper = values(pool, whereabouts, (0, 1, 2))[0]["helper"]
    return [len(os.listdir(f"/proc/{pid}/fd")) for pid in ("self", helper)]


def test_replacing_ranks_again_and_again_leaks_nothing(pool: Pool) -> None:
    before = open_files(pool)
    for _ in range(5):
        pool.run(entry_name(end_rank_zero), "exit")
    assert open_files(pool) == before


def test_a_rank_that_dies_between_runs_is_replaced(pool: Pool) -> None:
    before = values(pool, whereabouts, (0, 1, 2))
    os.kill(before[1]["pid"], signal.SIGKILL)
    while Path("/proc", str(before[1]["pid"])).exists():  # its helper reaps it once the last of its threads is gone
        time.sleep(0.005)
    assert values(pool, whereabouts, (0, 1, 2)) != before


def test_a_helper_that_dies_is_replaced(pool: Pool) -> None:
    before = values(pool, whereabouts, (0, 1, 2))
    reports = pool.run(entry_name(end_helper))
    assert [(report.ended, report.signal) for report in reports] == [("signalled", signal.SIGKILL)] * 3
    assert "helper process ended (code -9)" in reports[0].error
    after = values(pool, whereabouts, (0, 1, 2))
    assert before[0]["helper"] != after[0]["helper"]
    os.kill(after[0]["helper"], signal.SIGKILL)
    while Path("/proc", str(after[0]["helper"]), "stat").read_text().rpartition(") ")[2][0] != "Z":
        time.sleep(0.005)
    assert values(pool, whereabouts, (0, 1, 2))[0]["helper"] != after[0]["helper"]


@pytest.mark.parametrize("world_size", [1, 3, 2])
def test_a_pool_can_have_another_size(pool: Pool, world_size: int) -> None:
    helper = values(pool, whereabouts, (0,), ranks=(0,))[0]["helper"]
    pool.resize(world_size)
    found = values(pool, whereabouts, [*range(world_size)])
    assert [value["sum"] for value in found] == [world_size] * world_size
    assert found[0]["helper"] == helper
    pool.resize(3)


def test_pools_run_side_by_side_and_one_may_use_the_default_group_only(pool: Pool) -> None:
    with Pool(2, default_group=True, preload=("wave",)) as other:
        ours, theirs = values(pool, whereabouts, (0, 1), ranks=(0, 1)), values(other, whereabouts, (0, 1))
        with pytest.raises(UsageError, match="takes every rank"):
            other.run("os:getpid", ranks=(0,))
        assert "default group" in other.run(entry_name(whereabouts), (0,))[0].error
    assert {value["pid"] for value in ours}.isdisjoint(value["pid"] for value in theirs)
    for found, expected in ((ours, (2, False, False, True)), (theirs, (2, True, True, True))):
        seen = [(value["sum"], value["default"], value["wave"], value["forked"]) for value in found]
        assert seen == [expected] * 2


def test_ranks_can_be_fresh_programs() -> None:
    with Pool(2, fork=False, preload=("wave",)) as fresh:
        before = values(fresh, whereabouts, (0, 1))
        assert [(value["sum"], value["forked"], value["wave"]) for value in before] == [(2, False, True)] * 2
        assert [value["sum"] for value in values(fresh, whereabouts, (1,), ranks=(1,))] == [1]
        ended = [report.ended for report in fresh.run(entry_name(end_rank_zero), "abort")]
        assert ended == ["signalled", "done"]
        after = values(fresh, whereabouts, (0, 1))
        assert before[0]["pid"] != after[0]["pid"]


def test_a_module_that_cannot_be_preloaded_is_named() -> None:
    missing = "no_such_module_anywhere"
    with Pool(2, preload=(missing,)) as made, pytest.raises(PoolError, match=f"No module named '{missing}'"):
        made.run("os:getpid")


def test_without_a_gpu_cuda_ranks_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with Pool(2, device="cuda") as made, pytest.raises(CouldNotJudge, match="no CUDA device"):
        made.run("os:getpid")


BAD_POOLS = [
    ({"world_size": 0}, "1 to 128"),
    ({"world_size": 129}, "1 to 128"),
    ({"world_size": 2, "device": "tpu"}, "cpu or cuda"),
]


@pytest.mark.parametrize(("arguments", "expected"), BAD_POOLS)
def test_a_pool_that_cannot_be_is_refused(arguments: dict[str, Any], expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        Pool(**arguments)


@pytest.mark.parametrize("ranks", [(), (3,), (-1,), (1, 0), (1, 1)])
def test_ranks_that_are_not_there_are_refused(pool: Pool, ranks: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match="no such ranks"):
        pool.run("os:getpid", ranks=ranks)


@pytest.mark.parametrize(("payload", "blobs"), [({1}, ()), (None, ["text"])])
def test_what_cannot_be_sent_is_refused_before_anything_runs(pool: Pool, payload: object, blobs: Any) -> None:
    before = values(pool, whereabouts, (0, 1, 2))
    with pytest.raises(TypeError):
        pool.run("os:getpid", payload, blobs)
    assert values(pool, whereabouts, (0, 1, 2)) == before


def test_a_closed_pool_says_so() -> None:
    made = Pool(1)
    made.close()
    with pytest.raises(UsageError, match="the pool is closed"):
        made.run("os:getpid")


def test_the_parent_never_imports_torch() -> None:
    code = f"""
import sys
from shardproof.ranks import Pool
with Pool(1) as pool:
    assert pool.run({entry_name(whereabouts)!r}, [0])[0].value["sum"] == 1
assert not {{"torch", "numpy"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": str(HOME)})
