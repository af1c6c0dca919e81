"""Gathers by copies out of the other ranks' memory: who is refused, and that every law holds for who is not."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import gpu_impl
from gpu_impl.symmetric import Symmetric, refused
from shardproof.engine import Engine
from shardproof.profiles import Budget
from shardproof.pytest_plugin import Ranks
from shardproof.search import Plan, search
from tests.gpu_impl.support import Answer

# What each rank objects and where it is, and why they cannot.
TOLD: list[tuple[list[tuple[str, str]], str]] = [
    ([("", "a/0")], ""),
    ([("", "a/0"), ("", "a/1"), ("", "a/2")], ""),
    ([("", "a/0"), ("", "a/0")], "ranks 0-1 share a GPU, expected one a rank"),
    ([("", "a/0"), ("", "a/1"), ("", "a/0")], "ranks 0, 2 share a GPU, expected one a rank"),
    ([("", "a/0"), ("", "b/0")], "ranks are on several hosts: rank 0, and rank 1"),
    ([("", "a/0"), ("no memory", ""), ("no memory", "")], "no memory on ranks 1-2"),
]


@pytest.mark.parametrize(("told", "why"), TOLD)
def test_who_is_refused(told: list[tuple[str, str]], why: str) -> None:
    assert refused(told) == why


def opened(context: Any, payload: Any, blobs: Any) -> Answer:
    try:
        gpu_impl.Session(context.group(tuple(range(payload))), torch.device("cpu"), symmetric_memory=True)
    except gpu_impl.RefusedError as error:
        return str(error), []
    return "opened", []


@pytest.mark.parametrize("world_size", [1, 3])
def test_a_cpu_is_refused_on_every_rank_with_one_text(ranks: Ranks, world_size: int) -> None:
    (said,) = set(ranks.values(opened, world_size, world_size=world_size))
    assert said.startswith("symmetric memory: the device is cpu, expected cuda on rank")
    assert "NCCL serves every case" in said


def test_room_for_the_largest_shard_is_made_once() -> None:
    asked: list[int] = []

    def make(group: Any, device: Any, nbytes: int) -> tuple[Any, Any]:
        asked.append(nbytes)
        return None, None

    symmetric = Symmetric(None, torch.device("cpu"), make=make)  # type: ignore[arg-type]  # only `make` is given it
    for nbytes in (0, 8, 4, 8, 12):
        symmetric.reserve(nbytes)
    assert asked == [8, 12]


def test_every_law_holds() -> None:
    with Engine("tests.gpu_impl.symmetric_files", pool_size=4, deadline=60) as engine:
        result = search(engine, Plan((1, 2, 3, 4), 4, budget=Budget(examples=90, seconds=120, shrink_seconds=20)))
    assert result.failures == ()
    assert result.cases == 90
    judged = {law.law for law in result.laws if law.outcome == "held"}
    assert {"round-trip", "valid-means-complete", "earlier-result-intact", "view-outlives-release"} <= judged
