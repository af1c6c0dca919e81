"""What is under `fully_shard`, and how it is trained, saved and loaded: the same in every form of FSDP2."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from shardproof.adapters.sharded import load, local_of, read, save, term


class Unit(nn.Module):
    """Parameters that FSDP2 gathers and reduces together; `in_use` were gathered and not released since."""

    def __init__(self, reduce_dtype: torch.dtype | None) -> None:
        """Without a parameter yet; None reduces in the parameters' dtype."""
        super().__init__()
        self.reduce_dtype = reduce_dtype
        self.names: dict[str, str] = {}
        self.in_use: set[str] = set()

    def add(self, id: str, parameter: nn.Parameter) -> None:
        """One more parameter, or one more name of one."""
        self.names[id] = f"p{len(self.names)}"  # a name may not have dots, an id may
        self.register_parameter(self.names[id], parameter)

    def is_floating(self, id: str) -> bool:
        """Whether it holds real floating numbers."""
        return self.parameter(id).is_floating_point()

    def parameter(self, id: str) -> nn.Parameter:
        """As the module has it now, whole or sharded."""
        return self.get_parameter(self.names[id])

    def forward(self, ids: Sequence[str], term: Callable[[str, nn.Parameter], torch.Tensor]) -> torch.Tensor:
        """A loss with one term a parameter."""
        return torch.stack([term(id, self.parameter(id)) for id in ids]).sum()


class Trained:
    """A session's training and checkpoints, over units that are sharded already."""

    def __init__(self, group: dist.ProcessGroup, mesh: DeviceMesh) -> None:
        """Without a unit yet. `group` are all ranks of `mesh`."""
        self._group, self._mesh = group, mesh
        self._units: dict[str, Any] = {}
        self._sharded: dict[str, Any] = {}
        self._reduced: tuple[str, ...] = ()
        self._pending: set[str] = set()  # accumulated, and not reduced yet
        self._carried: dict[str, float] = {}  # reduced beside others, though not asked for, and the factor
        self._losses: list[torch.Tensor] = []
        self._roots: dict[str, str] = {}

    def _start(self, ids: Sequence[str], factor: float) -> None:
        """The next backward reduces these, divided by `factor`: what was asked for before is no part of it.

        FSDP2 reduces what was accumulated for other parameters of their modules along.
        """
        for id in ids:
            before = self._carried.pop(id, None)
            if before is None:
                self._sharded[id].grad = None
            elif before != factor:
                self._sharded[id].grad.mul_(before / factor)
            self._units[id].set_gradient_divide_factor(factor)
        units = {self._units[id] for id in ids}
        along = {id for id in self._pending.difference(ids) if self._units[id] in units}
        self._carried |= dict.fromkeys(along, factor)
        self._pending.difference_update(along, ids)

    def forward(self, value: int) -> float:
        """The protocol's model, module by module; tied names are one parameter used several times."""
        on_rank = partial(term, rank=dist.get_rank(self._group), value=value)
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
        self._start(self._reduced, 1.0)
        for id in self._reduced:
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
