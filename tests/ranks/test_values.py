"""What comes back from ranks that end well."""

from __future__ import annotations

import pytest

from shardproof.pytest_plugin import Ranks
from shardproof.ranks import Context
from shardproof.ranks.wire import Blob

WORLD_SIZES = range(1, 9)


def sum_over_ranks(context: Context, payload: int, blobs: tuple[bytearray, ...]) -> tuple[int, list[Blob]]:
    import torch
    import torch.distributed as dist

    total = torch.tensor([context.rank + 1])
    dist.all_reduce(total, group=context.group(range(payload)))
    return total.item(), [bytes(blob) for blob in blobs]


@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_a_collective_joins_all_ranks(ranks: Ranks, world_size: int) -> None:
    assert ranks.values(sum_over_ranks, world_size, world_size=world_size) == [sum(range(world_size + 1))] * world_size
