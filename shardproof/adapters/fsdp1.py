"""FSDP1, `torch.distributed.fsdp.FullyShardedDataParallel`: flat parameters, padded and cut over a process group.

FSDP1 joins all parameters of a unit in one flat parameter; here every parameter is a unit of its own inside one root
that has none, so that a flat parameter is a parameter. It is used as its documentation asks: values are read and
written inside `summon_full_params`, which a release or the next use of the module leaves, and gradients come from a
backward, accumulated ones under `no_sync`. Whether a gradient is summed or meant is up to a communication hook.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._comm_hooks.default_hooks import DefaultState, allreduce_hook, reduce_scatter_hook
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision

from shardproof.adapters.fsdp1_policy import policy
from shardproof.adapters.fsdp1_units import Root, Unit
from shardproof.adapters.sharded import term

if TYPE_CHECKING:
    from shardproof.protocol import Spec

__all__ = ["OrigParams", "Session", "policy", "promises"]

promises = ()


class Session:
    """The parameters of one group; see `shardproof.protocol.Session`."""

    use_orig_params = False

    def __init__(self, group: dist.ProcessGroup, device: torch.device, layout: Mapping[str, Any]) -> None:  # noqa: ARG002  # it has one layout
        """FSDP1 takes a process group as it is."""
        self._group, self._device = group, device
        self._units: dict[str, Any] = {}  # tied ids share one
        self._open: dict[Any, AbstractContextManager[None]] = {}
        self._reduced: tuple[str, ...] = ()
        self._done: set[Any] = set()  # units whose gradients were reduced
        self._loss: torch.Tensor | None = None
        self._divisor = DefaultState(group)
        self._divisor.gradient_postdivide_factor = 1.0

    def register(self, specs: Sequence[Spec]) -> None:
        """Build the module and wrap it, units first."""
        plain: dict[str, Unit] = {}
        precision: dict[Unit, MixedPrecision | None] = {}
        for spec in specs:
            if spec.tied_to is not None:
                plain[spec.id] = plain[spec.tied_to]
                plain[spec.id].add(spec.id, plain[spec.id].value(spec.tied_to))
            else:
                plain[spec.id] = Unit()
                plain[spec.id].add(spec.id, nn.Parameter(spec.full, requires_grad=spec.requires_grad))
                reduce_dtype = spec.comm_dtype if spec.requires_grad else None
                precision[plain[spec.id]] = MixedPrecision(reduce_dtype=reduce_dtype) if reduce_dtype else None
        wrapped = {unit: self._wrap(unit, precision[unit]) for unit in dict.fromkeys(plain.values())}
        self._units = {id: wrapped[unit] for id, unit in plain.items()}
        self._root = self._wrap(Root(list(wrapped.values())), None)
        self._root.register_comm_hook(self._divisor, allreduce_hook if self._group.size() == 1 else reduce_scatter_hook)
        with FullyShardedDataParallel.summon_full_params(self._root, recurse=False):
            """The first use of the root makes it one; a unit that is used before it would become a root itself."""

    def _wrap(self, module: nn.Module, precision: MixedPrecision | None) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*NO_SHARD")  # what it does on one rank
            return FullyShardedDataParallel(
                module,
                self._group,
                mixed_precision=precision,
                use_orig_params=self.use_orig_params,
                device_id=self._device,  # asked for, because FSDP1 takes no CPU of its own accord
            )

    def shard(self, id: str) -> torch.Tensor:
        """This rank's part of the flat parameter, padding included."""
        self._leave(self._units[id])
        flat: torch.Tensor = self._units[id]._flat_param
        return flat.detach()

    def gather(self, id: str) -> torch.Tensor:
        """Enter `summon_full_params`."""
        unit = self._units[id]
        if unit not in self._open:
            self._open[unit] = FullyShardedDataParallel.summon_full_params(unit, writeback=False)
            self._open[unit].__enter__()
        full: torch.Tensor = unit.module.value(id).detach()
        return full

    def available(self, id: str) -> bool:
        """Whether it is inside `summon_full_params`."""
        return id in self._units and self._units[id] in self._open

    def release(self, id: str) -> None:
        """Leave it."""
        self._leave(self._units[id])

    def _leave(self, *units: Any) -> None:
        for unit in units:
            if unit in self._open:
                self._open.pop(unit).__exit__(None, None, None)

    def update(self, id: str, shard: torch.Tensor) -> None:
        """Every rank writes its part of the whole parameter, which is written back."""
        unit, start = self._units[id], self._group.rank() * shard.numel()
        self._leave(unit)
        with FullyShardedDataParallel.summon_full_params(unit, writeback=True), torch.no_grad():
            own = unit.module.value(id).view(-1)[start : start + shard.numel()]
            own.copy_(shard.view(-1)[: own.numel()])

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
        self._leave(*self._units.values())
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
        self._leave(*self._units.values())
        return float(self._root.clip_grad_norm_(bound))

    def step(self, learning_rate: float) -> None:
        """An optimizer over what the module calls its parameters."""
        self._leave(*self._units.values())
        reduced = {self._units[id] for id in self._reduced}
        torch.optim.SGD([p for unit in reduced for p in unit.parameters()], lr=learning_rate).step()


class OrigParams:
    """The same with `use_orig_params`: modules keep their parameters, as views of the flat one."""

    promises = ()

    @staticmethod
    def policy(case: Any) -> tuple[str, str, str]:
        """As without."""
        return policy(case)

    class Session(Session):
        """See the other `Session`."""

        use_orig_params = True
