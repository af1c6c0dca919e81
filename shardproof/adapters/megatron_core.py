"""Megatron-Core's data parallelism with a distributed optimizer: parameters and gradients in buckets, cut evenly.

What runs without CUDA: the buffers and buckets, the distributed optimizer's own map of who has what, the all-gather of
parameters, gradient accumulation and the reduce-scatter. The optimizer itself is not offered: it looks for
`torch.cuda.FloatTensor` by name, and norms and clips are calculated on the device "cuda" (docs/findings-megatron.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from megatron.core.distributed import DistributedDataParallel
from megatron.core.process_groups_config import ProcessGroupCollection
from megatron.core.transformer.transformer_config import TransformerConfig
from torch import nn

from shardproof.adapters.megatron_core_layout import Place, buffers_on, config_of, layout, own_ranges, specs
from shardproof.adapters.megatron_core_policy import policy

if TYPE_CHECKING:
    from shardproof.protocol import Spec

__all__ = ["Session", "layout", "layouts", "policy", "promises", "specs"]

layouts = ("bucket",)
promises = ()


class Session:
    """The parameters of one group; see `shardproof.protocol.Session`."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device, layout: Mapping[str, Any]) -> None:
        """Every rank is a data-parallel one; there is one tensor, pipeline and expert rank."""
        self._device, self._config, self._size = device, config_of(layout), group.size()
        alone = Place(0, 1)
        self._groups = ProcessGroupCollection(dp=group, dp_cp=group, expt_dp=group, tp=alone, pp=alone, ep=alone)
        self._parameters: dict[str, Any] = {}  # tied ids share one; Megatron-Core gives each a main_grad
        self._own: dict[nn.Parameter, slice] = {}
        self._reduced = False

    def register(self, specs: Sequence[Spec]) -> None:
        """Wrap a module; it lays its parameters out from the last to the first.

        Raises ValueError for a frozen parameter: it would be in no buffer, and those behind it would lie elsewhere.
        """
        for spec in specs:
            if not spec.requires_grad:
                raise ValueError(f"{spec.id} is frozen, so that it would stay whole on every rank")
            tied = self._parameters.get(spec.tied_to or "")
            self._parameters[spec.id] = nn.Parameter(spec.full) if tied is None else tied
        module = nn.ParameterList(reversed(dict.fromkeys(self._parameters.values())))
        model = TransformerConfig(num_layers=1, hidden_size=1, num_attention_heads=1)
        with buffers_on(self._device):
            self._ddp = DistributedDataParallel(model, self._config, module, pg_collection=self._groups)
        for buffer in self._ddp.buffers:
            self._own |= own_ranges(buffer)

    def _part(self, id: str, whole: torch.Tensor) -> torch.Tensor:
        """This rank's elements of the parameter or its gradient, where they lie."""
        return whole.detach().view(-1)[self._own.get(self._parameters[id], slice(0, 0))]

    def shard(self, id: str) -> torch.Tensor:
        """What the distributed optimizer has on this rank."""
        return self._part(id, self._parameters[id])

    def gather(self, id: str) -> torch.Tensor:
        """All-gather every bucket, as is done after an optimizer step; the parameter is a view of the buffer."""
        self._ddp.start_param_sync()
        parameter: nn.Parameter = self._parameters[id]
        return parameter

    def update(self, id: str, shard: torch.Tensor) -> None:
        """Write this rank's part into the buffer, as the distributed optimizer does."""
        self.shard(id).copy_(shard.view(-1))

    def accumulate(self, grads: Mapping[str, torch.Tensor]) -> None:
        """A microbatch that is not the last one."""
        self._begin()
        with self._ddp.no_sync():
            self._backward(grads)

    def reduce(self, grads: Mapping[str, torch.Tensor], reduction: str) -> Mapping[str, torch.Tensor]:
        """The last microbatch. Gradients are scaled before they are added up; a sum is what a scale of 1 gives."""
        for buffer in self._ddp.buffers:
            for bucket in buffer.buckets:
                bucket.gradient_scaling_factor = 1.0 if reduction == "sum" else 1.0 / self._size
        self._begin()
        self._backward(grads)
        self._ddp.finish_grad_sync()
        self._reduced = True
        return {id: self._part(id, self._parameters[id].main_grad) for id in grads}

    def _begin(self) -> None:
        """The first microbatch after a reduction finds the gradients zeroed."""
        if self._reduced:
            self._ddp.zero_grad_buffer()
            self._reduced = False

    def _backward(self, grads: Mapping[str, torch.Tensor]) -> None:
        """Of a loss in which every trained parameter takes part, which overlapping with the backward needs."""
        given = {self._parameters[id]: grad for id, grad in grads.items()}
        everything = dict.fromkeys(self._parameters.values())
        torch.autograd.backward([(p * given.get(p, torch.zeros_like(p))).sum() for p in everything])
