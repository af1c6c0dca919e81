"""Where FSDP1's own sharding puts a parameter that is alone in its unit, at its true size and without memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed.fsdp._flat_param import FlatParamHandle


def layout(shape: Sequence[int], rank: int, world_size: int) -> dict[str, Any]:
    """Read off the view into which FSDP1's function cuts a tensor on the meta device, and the padding it names.

    Its elements are bytes, so that 2^62 of them are not too many.
    """
    whole = torch.empty(tuple(shape), dtype=torch.uint8, device="meta")
    own, padding = FlatParamHandle._get_unpadded_shard(whole, rank, world_size)
    length = own.numel()
    return {
        "shard_numel": length + padding,
        "padded_numel": world_size * (length + padding),
        "runs": [(0, int(own.storage_offset()), length, length, 1)] if length else [],
    }
