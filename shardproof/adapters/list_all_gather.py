"""The plain control: pad, cut, `all_gather` into a list, concatenate. It must never be accused of anything.

Everything travels as bytes, so that every dtype does on every backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch
import torch.distributed as dist


def shard(full: torch.Tensor, rank: int, world_size: int) -> torch.Tensor:
    """Part `rank` of `world_size` equal parts of the flattened parameter, the last ones padded with zeros."""
    flat = full.reshape(-1)
    length = -(-flat.numel() // world_size)
    own = flat[rank * length : (rank + 1) * length]
    padded = torch.zeros(length, dtype=full.dtype, device=full.device)
    padded[: own.numel()].copy_(own)
    return padded


def gather(shard: torch.Tensor, shape: Sequence[int], group: dist.ProcessGroup) -> torch.Tensor:
    """The whole parameter in its true shape, in memory of its own."""
    sent = shard.contiguous().as_strided((shard.numel(),), (1,)).view(torch.uint8)
    parts = [torch.empty_like(sent) for _ in range(group.size())]
    dist.all_gather(parts, sent, group=group)
    return torch.cat(parts).view(shard.dtype)[: prod(shape)].reshape(tuple(shape))
