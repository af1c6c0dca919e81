"""Where DTensor's own placement puts a parameter, at its true size and without memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torch.distributed.tensor import Shard


def layout(shape: Sequence[int], rank: int, world_size: int, *, dim: int = 0) -> dict[str, Any]:
    """As the placement itself says which part of the dim a rank has."""
    outer, inner = math.prod(shape[:dim]), math.prod(shape[dim + 1 :])
    size, offset = Shard.local_shard_size_and_offset(shape[dim], world_size, rank)
    largest, _ = Shard.local_shard_size_and_offset(shape[dim], world_size, 0)
    length, stride = size * inner, shape[dim] * inner
    return {
        "shard_numel": outer * length,
        "padded_numel": world_size * outer * largest * inner,
        "runs": [(0, offset * inner, length, stride, outer)] if outer * length else [],
    }
