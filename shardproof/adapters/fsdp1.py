"""FSDP1, `torch.distributed.fsdp.FullyShardedDataParallel`: flat parameters, padded and cut over a process group.

Gradients come from a backward, accumulated ones under `no_sync`. Whether a gradient is summed or meant is up to a
communication hook. State dicts are sharded; with `use_orig_params` they are whole.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

from shardproof.adapters.fsdp1_layout import layout
from shardproof.adapters.fsdp1_policy import policy
from shardproof.adapters.fsdp1_wrapped import Wrapped
from shardproof.adapters.sharded import term

__all__ = ["OrigParams", "Session", "layout", "policy", "promises"]

promises = ()


class Session(Wrapped):
    """The parameters of one group; see `shardproof.protocol.Session`."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device, layout: Mapping[str, Any]) -> None:
        """Nothing was reduced yet."""
        super().__init__(group, device, layout)
        self._reduced: tuple[str, ...] = ()
        self._done: set[Any] = set()  # units whose gradients were reduced
        self._loss: torch.Tensor | None = None

    def accumulate(self, grads: Mapping[str, torch.Tensor]) -> None:
        """A backward under `no_sync`."""
        with self._root.no_sync():
            self._backward(grads)

    def reduce(self, grads: Mapping[str, torch.Tensor], reduction: str) -> Mapping[str, torch.Tensor]:
        """A backward with gradient synchronisation."""
        self._reduced = tuple(grads)
        self._divisor.gradient_predivide_factor = 1.0 if reduction == "sum" else float(self._group.size())
        self._backward(grads)
        self._done.update(self._units[id] for id in grads)
        return {id: self._gradient(id) for id in grads}

    def _backward(self, grads: Mapping[str, torch.Tensor]) -> None:
        units = list(dict.fromkeys(self._units[id] for id in grads))
        self._start(units)
        self._root(units, list(grads), lambda id, p: (p * grads[id]).sum()).backward()

    def _start(self, units: Sequence[Any]) -> None:
        """The module is used next; what was reduced before is no part of the next gradients."""
        self._leave()
        for unit in self._done.intersection(units):
            unit.zero_grad()
        self._done.difference_update(units)

    def _gradient(self, id: str) -> torch.Tensor:
        """The shard of a reduced gradient; nothing where FSDP1 left none."""
        grad: torch.Tensor = self._units[id]._handle.sharded_grad
        return grad

    def norm(self) -> float:
        """Squares are added up over the group; padding is not left out by hand."""
        total = torch.zeros((), dtype=torch.float64, device=self._device)
        total += sum(self._gradient(id).to(torch.float64).square().sum() for id in self._reduced)
        dist.all_reduce(total, group=self._group)
        return math.sqrt(float(total))

    def forward(self, value: int) -> float:
        """The protocol's model."""
        units = list(dict.fromkeys(self._units.values()))
        self._start(units)
        self._loss = self._root(units, list(self._units), partial(term, rank=self._group.rank(), value=value))
        total = self._loss.detach().clone()
        dist.all_reduce(total, group=self._group)
        return float(total)

    def backward(self) -> Mapping[str, torch.Tensor]:
        """With gradient synchronisation, summed."""
        roots = {unit: id for id, unit in reversed(self._units.items())}
        self._reduced = tuple(id for unit, id in reversed(roots.items()) if unit._flat_param.requires_grad)
        self._divisor.gradient_predivide_factor = 1.0
        loss, self._loss = self._loss, None
        if loss is not None and loss.requires_grad:
            torch.autograd.backward(loss)
        self._done.update(self._units[id] for id in self._reduced)
        return {id: self._gradient(id) for id in self._reduced}

    def clip(self, bound: float) -> float:
        """FSDP1's own."""
        self._leave()
        return float(self._root.clip_grad_norm_(bound))

    def step(self, learning_rate: float) -> None:
        """An optimizer over what the module calls its parameters."""
        self._leave()
        reduced = {self._units[id] for id in self._reduced}
        torch.optim.SGD([p for unit in reduced for p in unit.parameters()], lr=learning_rate).step()


class OrigParams:
    """The same with `use_orig_params`: modules keep their parameters, as views of the flat one."""

    promises = ()
    layout = staticmethod(layout)
    policy = staticmethod(policy)

    class Session(Session):
        """See the other `Session`; its state dicts hold whole tensors."""

        use_orig_params = True
        full_state_dict = True
