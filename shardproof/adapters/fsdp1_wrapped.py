"""Modules under FSDP1, and all that can be done with their parameters but train them.

FSDP1 joins all parameters of a unit in one flat parameter; here every parameter is a unit of its own inside one root
that has none, so that a flat parameter is a parameter. It is used as its documentation asks: values are read and
written inside `summon_full_params`, which a release or the next use of the module leaves.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._comm_hooks.default_hooks import DefaultState, allreduce_hook, reduce_scatter_hook
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision

from shardproof.adapters import fsdp1_state
from shardproof.adapters.fsdp1_units import Root, Unit

if TYPE_CHECKING:
    from shardproof.protocol import Spec


class Wrapped:
    """The parameters of one group; see `shardproof.protocol.Session`.

    Whether modules keep their parameters, and whether state dicts hold whole tensors, is up to whoever inherits.
    """

    use_orig_params = False
    full_state_dict = False

    def __init__(self, group: dist.ProcessGroup, device: torch.device, layout: Mapping[str, Any]) -> None:  # noqa: ARG002  # it has one layout
        """FSDP1 takes a process group as it is."""
        self._group, self._device = group, device
        self._units: dict[str, Any] = {}  # tied ids share one
        self._names: dict[str, str] = {}  # in a state dict
        self._like: dict[str, torch.Tensor] = {}  # shapes and dtypes
        self._open: dict[Any, AbstractContextManager[None]] = {}
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
        units = list(dict.fromkeys(plain.values()))
        self._names = {id: f"units.{units.index(unit)}.{unit.names[id]}" for id, unit in plain.items()}
        self._like = {spec.id: torch.empty(spec.shape, dtype=spec.dtype, device="meta") for spec in specs}
        wrapped = {unit: self._wrap(unit, precision[unit]) for unit in units}
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
        for unit in units or tuple(self._open):
            if unit in self._open:
                self._open.pop(unit).__exit__(None, None, None)

    def update(self, id: str, shard: torch.Tensor) -> None:
        """Every rank writes its part of the whole parameter, which is written back."""
        unit, start = self._units[id], self._group.rank() * shard.numel()
        self._leave(unit)
        with FullyShardedDataParallel.summon_full_params(unit, writeback=True), torch.no_grad():
            own = unit.module.value(id).view(-1)[start : start + shard.numel()]
            own.copy_(shard.view(-1)[: own.numel()])

    def save(self, path: str) -> None:
        """A state dict, through torch.distributed.checkpoint."""
        self._leave()
        fsdp1_state.save(self._root, path, self._group, full=self.full_state_dict)

    def load(self, path: str) -> None:
        """A state dict, at this group's world size."""
        self._leave()
        fsdp1_state.load(self._root, path, self._group, full=self.full_state_dict)

    def read(self, path: str) -> dict[str, torch.Tensor]:
        """The whole parameters that a checkpoint holds."""
        return fsdp1_state.read(self._names, self._like, path)
