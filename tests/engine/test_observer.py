"""Collectives are told with the ranks that take part in them."""

from __future__ import annotations

from typing import Any

import pytest

from shardproof.pytest_plugin import Ranks
from shardproof.ranks import Context

Answer = tuple[object, list[bytes | bytearray]]


def watched(context: Context, payload: Any, blobs: tuple[bytearray, ...]) -> Answer:
    """The groups of a plain and a functional collective over `payload` inside of all ranks but the first."""
    import torch
    import torch.distributed as dist
    from torch.distributed._functional_collectives import all_reduce

    from shardproof.rank_side.observer import Observer

    if context.rank not in payload:
        return None, []
    group, observer = context.group(payload), Observer(0)
    observer.reset((1, 2, 3))
    with observer:
        dist.all_reduce(torch.ones(1), group=group)
        all_reduce(torch.ones(1), "sum", group)
    return [[call.op, call.group] for call in observer.cost().calls], []


@pytest.mark.parametrize(("members", "told"), [((1, 2, 3), []), ((1, 3), [0, 2]), ((2,), [1])])
def test_a_collective_is_told_with_its_ranks(ranks: Ranks, members: tuple[int, ...], told: list[int]) -> None:
    values = ranks.values(watched, members, world_size=4)
    assert [values[rank] for rank in members] == [[["all_reduce", told]] * 2] * len(members)
