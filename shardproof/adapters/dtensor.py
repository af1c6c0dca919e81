"""DTensor, `torch.distributed.tensor`: every parameter a tensor with placement Shard(dim) over a 1-D mesh.

Used as its documentation shows: `distribute_tensor` scatters rank 0's values, `full_tensor` gathers into memory of its
own each time, gradients are Partial until they are redistributed, and a loss over whole parameters says so by
`grad_placements`. Optimizers, clipping and checkpoints are torch's own over DTensors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Shard, distribute_tensor

from shardproof.adapters.dtensor_layout import layout
from shardproof.adapters.dtensor_policy import policy
from shardproof.adapters.sharded import load, local_of, read, save, term

if TYPE_CHECKING:
    from shardproof.protocol import Spec

__all__ = ["Session", "layout", "layouts", "policy", "promises"]

layouts = ("chunk",)
promises = ()


class Session:
    """The parameters of one group; see `shardproof.protocol.Session`."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device, layout: Mapping[str, Any]) -> None:
        """A mesh of the group as it is, wherever in the world it lies."""
        self._group, self._mesh = group, DeviceMesh.from_group(group, device.type)
        self._placement = Shard(int(layout.get("dim", 0)))
        self._sharded: dict[str, Any] = {}  # tied ids share one
        self._pending: dict[str, Any] = {}
        self._reduced: dict[str, Any] = {}
        self._loss: torch.Tensor | None = None

    def register(self, specs: Sequence[Spec]) -> None:
        """Distribute each parameter."""
        for spec in specs:
            if spec.tied_to is not None:
                self._sharded[spec.id] = self._sharded[spec.tied_to]
            else:
                distributed = distribute_tensor(spec.full, self._mesh, [self._placement])
                self._sharded[spec.id] = nn.Parameter(distributed, requires_grad=spec.requires_grad)

    def shard(self, id: str) -> torch.Tensor:
        """The local tensor, in the shape of the chunk."""
        return local_of(self._sharded[id])

    def gather(self, id: str) -> torch.Tensor:
        """Memory of its own."""
        full: torch.Tensor = self._sharded[id].detach().full_tensor()
        return full

    def update(self, id: str, shard: torch.Tensor) -> None:
        """Write the local tensor."""
        local = local_of(self._sharded[id])
        local.copy_(shard.view(local.shape))

    def accumulate(self, grads: Mapping[str, torch.Tensor]) -> None:
        """Add up while the sum over ranks is still to come."""
        for id, grad in grads.items():
            partial = DTensor.from_local(grad.clone(), self._mesh, [Partial()])
            self._pending[id] = self._pending[id] + partial if id in self._pending else partial

    def reduce(self, grads: Mapping[str, torch.Tensor], reduction: str) -> Mapping[str, torch.Tensor]:
        """Redistribute what is partial to shards."""
        self.accumulate(grads)
        self._reduced = {}
        for id in grads:
            summed = self._pending.pop(id).redistribute(placements=[self._placement])
            self._reduced[id] = summed if reduction == "sum" else summed / self._mesh.size()
        return {id: local_of(grad) for id, grad in self._reduced.items()}

    def norm(self) -> float:
        """Squares are added up over the mesh."""
        squares = [grad.to(torch.float64).square().sum() for grad in self._reduced.values()]
        return math.sqrt(sum(float(square.full_tensor()) for square in squares))

    def forward(self, value: int) -> float:
        """The protocol's model; tied names are one parameter used several times."""
        rank, loss = self._mesh.get_local_rank(), torch.zeros((), dtype=torch.float64, device=self._mesh.device_type)
        for id, parameter in self._sharded.items():
            if parameter.is_floating_point():
                loss = loss + term(id, parameter.full_tensor(grad_placements=[Partial()]), rank=rank, value=value)
        self._loss, total = loss, loss.detach().clone()
        dist.all_reduce(total, group=self._group)
        return float(total)

    def backward(self) -> Mapping[str, torch.Tensor]:
        """Gradients come back sharded as their parameters are, and add up with what was accumulated."""
        loss, self._loss = self._loss, None
        trained = {p: id for id, p in reversed(self._sharded.items()) if p.requires_grad and p.is_floating_point()}
        for parameter in trained:
            parameter.grad = None
        if loss is not None and loss.requires_grad:
            torch.autograd.backward(loss)
        self._reduced = {id: p.grad + self._left(id) for p, id in reversed(trained.items())}
        for parameter, id in trained.items():
            parameter.grad = self._reduced[id]
        return {id: local_of(grad) for id, grad in self._reduced.items()}

    def _left(self, id: str) -> Any:
        """What was accumulated for a parameter, sharded."""
        pending = self._pending.pop(id, None)
        return 0 if pending is None else pending.redistribute(placements=[self._placement])

    def clip(self, bound: float) -> float:
        """As torch clips DTensors."""
        for id, grad in self._reduced.items():
            self._sharded[id].grad = grad
        norm: Any = nn.utils.clip_grad_norm_([self._sharded[id] for id in self._reduced], bound)
        return float(norm.full_tensor() if isinstance(norm, DTensor) else norm)

    def step(self, learning_rate: float) -> None:
        """An optimizer over the sharded parameters."""
        for id, grad in self._reduced.items():
            self._sharded[id].grad = grad
        torch.optim.SGD([self._sharded[id] for id in self._reduced], lr=learning_rate).step()

    def save(self, path: str) -> None:
        """Through torch.distributed.checkpoint."""
        save(self._sharded, path, self._group)

    def load(self, path: str) -> None:
        """Into the sharded parameters, at this group's world size."""
        load(self._sharded, path, self._group)

    def read(self, path: str) -> dict[str, torch.Tensor]:
        """The whole parameters that a checkpoint holds."""
        return read(self._sharded, path)
