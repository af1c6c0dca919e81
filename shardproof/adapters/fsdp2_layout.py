"""Where FSDP2's own sharding puts a parameter, at its true size and without memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed.fsdp._fully_shard._fsdp_common import _chunk_with_empty


def layout(shape: Sequence[int], rank: int, world_size: int, *, dim: int = 0) -> dict[str, Any]:
    """Read off the views into which FSDP2's function cuts a tensor on the meta device.

    Its elements are bytes, so that 2^62 of them are not too many.
    """
    chunks = _chunk_with_empty(torch.empty(tuple(shape), dtype=torch.uint8, device="meta"), world_size, dim)
    padded_numel = world_size * chunks[0].numel()
    return {"shard_numel": chunks[rank].numel(), "padded_numel": padded_numel, "runs": _runs(chunks[rank])}


def _runs(chunk: torch.Tensor) -> list[tuple[int, ...]]:
    """A view's elements as (local, start, length, stride, count): what lies in one piece is one block."""
    length, outer = 1, list(zip(chunk.shape, map(int, chunk.stride()), strict=True))
    while outer and (outer[-1][0] == 1 or outer[-1][1] == length):
        length *= outer.pop()[0]
    count = math.prod(size for size, _ in outer)
    stride = outer[-1][1] if outer else length
    return [(0, int(chunk.storage_offset()), length, stride, count)] if chunk.numel() else []
