"""FSDP2, `torch.distributed.fsdp.fully_shard`: every parameter chunked along one dim over a 1-D mesh.

Parameters that FSDP2 can reduce together (one dtype, one reduction dtype) are one module under one `fully_shard`, and
so are all frozen ones; what it does for a module it does for all of them at once. It is used as its documentation asks:
parameters are written while they are sharded, a release is a `reshard` once nothing of the module is in use, gradients
come from a backward, and accumulated ones from backwards without gradient synchronisation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, UnshardHandle, fully_shard
from torch.distributed.tensor import DTensor, Shard

from shardproof.adapters.fsdp2_layout import layout
from shardproof.adapters.fsdp2_policy import policy
from shardproof.adapters.sharded import load, local_of, read, save, term

if TYPE_CHECKING:
    from shardproof.protocol import Spec

__all__ = ["Session", "layout", "layouts", "policy", "promises"]

layouts = ("chunk",)
promises = ()


class _Unit(nn.Module):
    """Parameters that FSDP2 gathers and reduces together; `in_use` were gathered and not released since."""

    def __init__(self, reduce_dtype: torch.dtype | None) -> None:
        super().__init__()
        self.reduce_dtype = reduce_dtype
        self.names: dict[str, str] = {}
        self.in_use: set[str] = set()

    def add(self, id: str, parameter: nn.Parameter) -> None:
        self.names[id] = f"p{len(self.names)}"  # a name may not have dots, an id may
        self.register_parameter(self.names[id], parameter)

    def is_floating(self, id: str) -> bool:
        return self.parameter(id).is_floating_point()

    def parameter(self, id: str) -> nn.Parameter:
        return self.get_parameter(self.names[id])

    def forward(self, ids: Sequence[str], term: Callable[[str, nn.Parameter], torch.Tensor]) -> torch.Tensor:
        """A loss with one term a parameter."""
        return torch.stack([term(id, self.parameter(id)) for id in ids]).sum()


class Session:
    """The parameters of one group; see `shardproof.protocol.Session`."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device, layout: Mapping[str, Any]) -> None:
        """A mesh of the group as it is, wherever in the world it lies."""
        self._group, self._mesh = group, DeviceMesh.from_group(group, device.type)
        self._dim = int(layout.get("dim", 0))
        self._units: dict[str, Any] = {}
        self._sharded: dict[str, Any] = {}
        self._handles: dict[str, UnshardHandle] = {}
        self._reduced: tuple[str, ...] = ()
        self._losses: list[torch.Tensor] = []
        self._roots: dict[str, str] = {}

    def register(self, specs: Sequence[Spec]) -> None:
        """Build the modules and shard them."""
        made: dict[object, _Unit] = {}
        for spec in specs:
            if spec.tied_to is not None:
                unit = self._units[spec.tied_to]
                unit.add(spec.id, unit.parameter(spec.tied_to))  # one parameter of the module under two names
            else:
                key = (spec.dtype, spec.comm_dtype) if spec.requires_grad else "frozen"
                unit = made.setdefault(key, _Unit(spec.comm_dtype if spec.requires_grad else None))
                unit.add(spec.id, nn.Parameter(spec.full, requires_grad=spec.requires_grad))
            self._units[spec.id] = unit
            self._roots[spec.id] = spec.tied_to or spec.id
        for unit in made.values():
            self._shard_unit(unit)

    def _shard_unit(self, unit: _Unit) -> None:
        placement, precision = Shard(self._dim), MixedPrecisionPolicy(reduce_dtype=unit.reduce_dtype)
        sharded = fully_shard(unit, mesh=self._mesh, shard_placement_fn=lambda _: placement, mp_policy=precision)
        if self._mesh.device_type == "cpu":  # not every gloo knows the reductions AVG and PREMUL_SUM
            sharded.set_force_sum_reduction_for_comms(True)
        self._sharded |= {id: unit.parameter(id) for id in unit.names}

    def shard(self, id: str) -> torch.Tensor:
        """The DTensor's local tensor, in the shape of the chunk."""
        return local_of(self._sharded[id])

    def gather(self, id: str) -> torch.Tensor:
        """The parameter that the module has while it is unsharded."""
        unit = self._units[id]
        unit.unshard()
        unit.in_use.add(id)
        parameter: nn.Parameter = unit.parameter(id)
        return parameter

    def prefetch(self, ids: Sequence[str]) -> None:
        """Unshard the modules of these parameters without waiting."""
        self._handles |= {id: self._units[id].unshard(async_op=True) for id in ids}

    def wait(self, id: str) -> torch.Tensor:
        """As `gather`, of a parameter that was prefetched."""
        self._handles.pop(id).wait()
        return self.gather(id)

    def available(self, id: str) -> bool:
        """Whether the parameter is in use, and the module has itself and not its shard."""
        unit = self._units.get(id)
        return unit is not None and id in unit.in_use and not isinstance(unit.parameter(id), DTensor)

    def release(self, id: str) -> None:
        """Reshard once no parameter of the module is in use any more."""
        unit = self._units[id]
        unit.in_use.discard(id)
        if not unit.in_use:
            unit.reshard()

    def update(self, id: str, shard: torch.Tensor) -> None:
        """Reshard, because only sharded parameters may be written, and write as an optimizer does."""
        self._units[id].reshard()
        local = local_of(self._sharded[id])
        local.copy_(shard.view(local.shape))

    def accumulate(self, grads: Mapping[str, torch.Tensor]) -> None:
        """A backward without gradient synchronisation."""
        self._backward(grads, sync=False)

    def reduce(self, grads: Mapping[str, torch.Tensor], reduction: str) -> Mapping[str, torch.Tensor]:
        """A backward with it; FSDP2 means by default, and sums with a divide factor of 1."""
        self._reduced = tuple(grads)
        for id in grads:
            self._sharded[id].grad = None
            self._units[id].set_gradient_divide_factor(1.0 if reduction == "sum" else float(self._mesh.size()))
        self._backward(grads, sync=True)
        return {id: local_of(self._sharded[id].grad) for id in grads}

    def _backward(self, grads: Mapping[str, torch.Tensor], *, sync: bool) -> None:
        for unit in dict.fromkeys(self._units[id] for id in grads):
            unit.set_requires_gradient_sync(sync)
            unit([id for id in grads if id in unit.names], lambda id, p: (p * grads[id]).sum()).backward()

    def norm(self) -> float:
        """Through DTensor: squares are added up over the mesh."""
        squares = [self._sharded[id].grad.to(torch.float64).square().sum() for id in self._reduced]
        return math.sqrt(sum(float(square.full_tensor()) for square in squares))

    def forward(self, value: int) -> float:
        """The protocol's model, module by module; tied names are one parameter used several times."""
        on_rank = partial(term, rank=self._mesh.get_local_rank(), value=value)
        units = dict.fromkeys(self._units.values())  # in one order on every rank
        named = {unit: [id for id in unit.names if unit.is_floating(id)] for unit in units}
        self._losses = [unit(ids, on_rank) for unit, ids in named.items() if ids]
        total = torch.zeros((), dtype=torch.float64, device=self._mesh.device_type)
        total += sum(loss.detach() for loss in self._losses)
        dist.all_reduce(total, group=self._group)
        return float(total)

    def backward(self) -> Mapping[str, torch.Tensor]:
        """With gradient synchronisation, summed."""
        trained = {id for id, p in self._sharded.items() if p.requires_grad and p.is_floating_point()}
        self._reduced = tuple(id for id, root in self._roots.items() if id == root and id in trained)
        for id in self._reduced:
            self._sharded[id].grad = None
            self._units[id].set_gradient_divide_factor(1.0)
            self._units[id].set_requires_gradient_sync(True)
        losses, self._losses = [loss for loss in self._losses if loss.requires_grad], []
        if losses:
            torch.autograd.backward(losses)
        return {id: local_of(self._sharded[id].grad) for id in self._reduced}

    def clip(self, bound: float) -> float:
        """As torch clips DTensors."""
        norm: Any = nn.utils.clip_grad_norm_([self._sharded[id] for id in self._reduced], bound)
        return float(norm.full_tensor() if isinstance(norm, DTensor) else norm)

    def step(self, learning_rate: float) -> None:
        """An optimizer over the sharded parameters, which the modules have again first."""
        for unit in {self._units[id] for id in self._reduced}:
            unit.reshard()
        torch.optim.SGD([self._sharded[id] for id in self._reduced], lr=learning_rate).step()

    def save(self, path: str) -> None:
        """Through torch.distributed.checkpoint."""
        save(self._sharded, path, self._group)

    def load(self, path: str) -> None:
        """Into the sharded parameters, at this group's world size."""
        for unit in set(self._units.values()):
            unit.reshard()
        load(self._sharded, path, self._group)

    def read(self, path: str) -> dict[str, torch.Tensor]:
        """The whole parameters that a checkpoint holds; needs no other rank."""
        return read(self._sharded, path)
