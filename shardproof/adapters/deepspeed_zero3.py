"""DeepSpeed ZeRO-3, `deepspeed.zero.Init`: every parameter flattened, padded and cut over a process group.

Used as its documentation asks, without an engine: a module that exists already is partitioned, values are read and
written inside `GatheredParameters`, a prefetch is the coalesced gather that fetches a whole module, and gradients
are reduced by the function that reduces a bucket. Norms, steps and checkpoints belong to the engine, which
holds second copies of everything in the default process group; they are not offered.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn

from shardproof.adapters.deepspeed_policy import policy

# What its launcher sets; here it is asked to use the CPU whatever else there is.
os.environ |= {"DS_ACCELERATOR": "cpu", "LOCAL_RANK": "0", "LOCAL_SIZE": "1"}

import deepspeed
from deepspeed.runtime.comm.coalesced_collectives import reduce_scatter_coalesced
from deepspeed.runtime.zero.partition_parameters import ZeroParamStatus

if TYPE_CHECKING:
    from shardproof.protocol import Spec

__all__ = ["Session", "policy", "promises"]

promises = ()


class Session:
    """The parameters of one group; see `shardproof.protocol.Session`."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device, layout: Mapping[str, Any]) -> None:  # noqa: ARG002  # it has one layout
        """DeepSpeed takes the default process group as it finds it."""
        deepspeed.ops.__compatible_ops__ = {
            "deepspeed_shm_comm": False
        }  # its own shared-memory collectives would be compiled first
        deepspeed.utils.logger.setLevel("ERROR")
        deepspeed.init_distributed("gloo", verbose=False)
        self._group = group
        self._parameters: dict[str, Any] = {}
        self._gathered: dict[str, Any] = {}
        self._handles: dict[str, Any] = {}

    def register(self, specs: Sequence[Spec]) -> None:
        """Partition a module of these parameters."""
        for spec in specs:
            tied = self._parameters.get(spec.tied_to or "")
            self._parameters[spec.id] = tied if tied is not None else nn.Parameter(spec.full, spec.requires_grad)
        module = nn.ParameterList(self._parameters.values())
        deepspeed.zero.Init(module, data_parallel_group=self._group, mem_efficient_linear=False)

    def shard(self, id: str) -> torch.Tensor:
        """The partition, padding included."""
        partition: torch.Tensor = self._parameters[id].ds_tensor
        return partition

    def gather(self, id: str) -> torch.Tensor:
        """Enter `GatheredParameters`, where the parameter is not available already."""
        parameter = self._parameters[id]
        if parameter.ds_status is ZeroParamStatus.NOT_AVAILABLE:
            self._gathered[id] = deepspeed.zero.GatheredParameters([parameter])
            self._gathered[id].__enter__()
        full: torch.Tensor = parameter.data
        return full

    def prefetch(self, ids: Sequence[str]) -> None:
        """One coalesced gather of what is neither available nor under way."""
        found = {
            id(p): p for p in map(self._parameters.__getitem__, ids) if p.ds_status is ZeroParamStatus.NOT_AVAILABLE
        }
        if found:
            parameters = list(found.values())
            handle = parameters[0].all_gather_coalesced(parameters)
            self._handles |= dict.fromkeys(ids, handle)

    def wait(self, id: str) -> torch.Tensor:
        """Wait for all that was gathered with it."""
        if id in self._handles:
            self._handles.pop(id).wait()
        return self.gather(id)

    def available(self, id: str) -> bool:
        """DeepSpeed's own word for it."""
        parameter = self._parameters.get(id)
        return parameter is not None and parameter.ds_status is ZeroParamStatus.AVAILABLE

    def release(self, id: str) -> None:
        """Leave `GatheredParameters`, or partition what was prefetched."""
        if id in self._handles:
            self._handles.pop(id).wait()
        if id in self._gathered:
            self._gathered.pop(id).__exit__(None, None, None)
        elif self.available(id):
            self._parameters[id].partition()

    def update(self, id: str, shard: torch.Tensor) -> None:
        """Every rank in turn is the modifier rank and writes its part."""
        for name, parameter in self._parameters.items():
            if parameter is self._parameters[id]:
                self.release(name)
        parameter = self._parameters[id]
        for rank in range(self._group.size()):
            with deepspeed.zero.GatheredParameters([parameter], modifier_rank=rank):
                if rank == self._group.rank():
                    own = parameter.data.view(-1)[rank * shard.numel() : (rank + 1) * shard.numel()]
                    own.copy_(shard.view(-1)[: own.numel()])

    def reduce(self, grads: Mapping[str, torch.Tensor], reduction: str) -> Mapping[str, torch.Tensor]:
        """One bucket of all gradients. ZeRO-3 means; a sum is the mean of gradients as many times as large."""
        size = self._group.size()
        sent = [grad if reduction == "mean" else grad * size for grad in grads.values()]
        reduced = reduce_scatter_coalesced(sent, self._group)
        shards = {}
        for (id, grad), part in zip(grads.items(), reduced, strict=True):
            shards[id] = torch.zeros(self._parameters[id].partition_numel(), dtype=grad.dtype)
            shards[id][: part.numel()] = part  # as ZeRO-3 copies it into its gradient partition
        return shards
