"""FSDP2, `torch.distributed.fsdp.fully_shard`: every parameter chunked along one dim over a 1-D mesh.

Parameters that FSDP2 can reduce together (one dtype, one reduction dtype) are one module under one `fully_shard`, and
so are all frozen ones; what it does for a module it does for all of them at once. It is used as its documentation asks:
parameters are written while they are sharded, a release is a `reshard` once nothing of the module is in use, gradients
come from a backward, and accumulated ones from backwards without gradient synchronisation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, UnshardHandle, fully_shard
from torch.distributed.tensor import DTensor, Shard

from shardproof.adapters.fsdp2_layout import layout
from shardproof.adapters.fsdp2_policy import policy
from shardproof.adapters.fsdp2_training import Trained, Unit
from shardproof.adapters.sharded import local_of

if TYPE_CHECKING:
    from shardproof.protocol import Spec

__all__ = ["Session", "layout", "layouts", "policy", "promises"]

layouts = ("chunk",)
promises = ()


class Session(Trained):
    """The parameters of one group; see `shardproof.protocol.Session`."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device, layout: Mapping[str, Any]) -> None:
        """Nothing is sharded yet."""
        super().__init__(group, self.mesh(group, device.type, layout))
        self._dim = int(layout.get("dim", 0))
        self._handles: dict[str, UnshardHandle] = {}

    def mesh(self, group: dist.ProcessGroup, device_type: str, layout: Mapping[str, Any]) -> DeviceMesh:  # noqa: ARG002  # other forms read the layout
        """The group as it is, wherever in the world it lies."""
        return DeviceMesh.from_group(group, device_type)

    def reshard_after_forward(self) -> bool | int | None:
        """What is asked of `fully_shard`: its default."""
        return None

    def register(self, specs: Sequence[Spec]) -> None:
        """Build the modules and shard them."""
        made: dict[object, Unit] = {}
        for spec in specs:
            if spec.tied_to is not None:
                unit = self._units[spec.tied_to]
                unit.add(spec.id, unit.parameter(spec.tied_to))  # one parameter of the module under two names
            else:
                key = (spec.dtype, spec.comm_dtype) if spec.requires_grad else "frozen"
                unit = made.setdefault(key, Unit(spec.comm_dtype if spec.requires_grad else None))
                unit.add(spec.id, nn.Parameter(spec.full, requires_grad=spec.requires_grad))
            self._units[spec.id] = unit
            self._roots[spec.id] = spec.tied_to or spec.id
        for unit in made.values():
            self._shard_unit(unit)

    def _shard_unit(self, unit: Unit) -> None:
        placement, precision = Shard(self._dim), MixedPrecisionPolicy(reduce_dtype=unit.reduce_dtype)
        sharded = fully_shard(
            unit,
            mesh=self._mesh,
            reshard_after_forward=self.reshard_after_forward(),
            shard_placement_fn=lambda _: placement,
            mp_policy=precision,
        )
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
        """Whether the parameter is in use, by whatever name, and the module has itself and not its shard."""
        unit = self._units.get(id)
        if unit is None or self._roots[id] not in {self._roots[name] for name in unit.in_use}:
            return False
        return not isinstance(unit.parameter(id), DTensor)

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
        self._pending.update(grads)
        self._backward(grads, sync=False)

    def reduce(self, grads: Mapping[str, torch.Tensor], reduction: str) -> Mapping[str, torch.Tensor]:
        """A backward with it; FSDP2 means by default, and sums with a divide factor of 1."""
        self._reduced = tuple(grads)
        self._start(self._reduced, 1.0 if reduction == "sum" else float(self._mesh.size()))
        self._backward(grads, sync=True)
        return {id: local_of(self._sharded[id].grad) for id in grads}

    def _backward(self, grads: Mapping[str, torch.Tensor], *, sync: bool, all_reduce: bool = True) -> None:
        for unit in dict.fromkeys(self._units[id] for id in grads):
            unit.set_requires_gradient_sync(sync)
            unit.set_requires_all_reduce(sync and all_reduce)
            unit([id for id in grads if id in unit.names], lambda id, p: (p * grads[id]).sum()).backward()

    def norm(self) -> float:
        """Through DTensor: squares are added up over the mesh."""
        squares = [self._sharded[id].grad.to(torch.float64).square().sum() for id in self._reduced]
        return math.sqrt(sum(float(square.full_tensor()) for square in squares))
