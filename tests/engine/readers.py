"""Implementations that are right as long as memory which nobody wrote happens to be zero."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
import torch.distributed as dist

from shardproof.adapters.list_all_gather import gather as gathered
from shardproof.adapters.list_all_gather import shard as cut


class Fresh:
    """Adds the parameter to fresh memory."""

    shard = staticmethod(cut)

    @staticmethod
    def memory(numel: int) -> torch.Tensor:
        return torch.empty(4 * numel, dtype=torch.uint8)

    def gather(self, shard: torch.Tensor, shape: Sequence[int], group: dist.ProcessGroup) -> torch.Tensor:
        whole = gathered(shard, shape, group).reshape(-1)
        memory = self.memory(prod(shape)).view(torch.int32)
        return memory.add_(whole.view(torch.int32)).view(torch.float32).reshape(tuple(shape))


class Strided(Fresh):
    """Likewise, allocated by its strides."""

    @staticmethod
    def memory(numel: int) -> torch.Tensor:
        return torch.empty_strided((4 * numel,), (1,), dtype=torch.uint8)


class Grown(Fresh):
    """Adds it to a storage that grew."""

    @staticmethod
    def memory(numel: int) -> torch.Tensor:
        tensor = torch.empty(0, dtype=torch.uint8)
        storage = tensor.untyped_storage()
        storage.resize_(4 * numel)
        return tensor.set_(storage, 0, (4 * numel,))


class Padding:
    """Adds up the whole of what was sharded, padding included, and takes that for the parameter's first element."""

    shard = staticmethod(cut)

    class Session:
        def __init__(self, group: dist.ProcessGroup, *_: object) -> None:
            self.group, self.shards = group, dict[str, tuple[torch.Tensor, tuple[int, ...]]]()

        def register(self, specs: Sequence[Any]) -> None:
            self.shards = {spec.id: (spec.shard, spec.shape) for spec in specs}

        def gather(self, id: str) -> torch.Tensor:
            shard, shape = self.shards[id]
            sent = shard.view(torch.int32).sum(dtype=torch.int32).reshape(1)
            parts = [torch.zeros_like(sent) for _ in range(self.group.size())]
            dist.all_gather(parts, sent, group=self.group)
            whole = gathered(shard, shape, self.group).clone()
            whole.view(torch.int32).reshape(-1)[0] = torch.stack(parts).sum(dtype=torch.int32)
            return whole
