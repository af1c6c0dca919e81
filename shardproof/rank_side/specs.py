"""Builds what a session is given: full tensors, guarded shards, gradient buffers, and how one rank differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from reference import DTYPES, partition
from shardproof.case import Case, Divergence, Parameter
from shardproof.contents import full_bits, grad_dtype
from shardproof.layouts import Cut, cuts_of
from shardproof.rank_side.observer import poison_storage
from shardproof.rank_side.sessions import Loaded, Spec
from shardproof.rank_side.tensors import Guarded, guarded, raw_bytes, torch_dtype


@dataclass(frozen=True, slots=True)
class Setting:
    """Where and for whom specs are built: one rank of one group, with this poison in every shard's padding."""

    case: Case
    loaded: Loaded
    device: torch.device
    poison: int
    rank: int
    world_size: int


@dataclass(slots=True)
class Given:
    """The shard an implementation was given for one parameter, in the harness's memory where it is contiguous."""

    shard: torch.Tensor
    memory: Guarded | None
    full_mutated: bool = False

    def changes(self) -> tuple[bool, bool]:
        """Whether the shard's own bytes changed since the last look, and whether memory around it did."""
        return (False, False) if self.memory is None else self.memory.changes()


def give(
    setting: Setting, ids: Sequence[str], written_by: int | str, *, diverge: bool = False
) -> tuple[list[Spec], dict[str, Given]]:
    """Specs for these parameters as operation `written_by` left them, and the shards within.

    `diverge` applies the case's divergences of this rank (registration only).
    """
    parameters = [setting.case.parameter(id) for id in ids]
    divergences = [d for d in setting.case.divergences if d.rank == setting.rank] if diverge else []
    for divergence in divergences:
        parameters = _differ(parameters, divergence)
    cuts = cuts_of(setting.case.layout, parameters if divergences else setting.case.parameters, setting.world_size)
    specs: list[Spec] = []
    given: dict[str, Given] = {}
    for parameter in parameters:
        spec, shard = _spec(setting, parameter, cuts[parameter.id], written_by, {spec.id: spec for spec in specs})
        if shard is not None:
            given[parameter.id] = shard
        specs.append(spec)
    for divergence in divergences:
        specs = [_tampered(spec, divergence) for spec in specs]
    return specs, given


def new_shards(setting: Setting, ids: Sequence[str], written_by: int) -> dict[str, Given]:
    """This rank's shards of new contents, by the implementation's own `shard`, else as the model cuts them."""
    cuts = cuts_of(setting.case.layout, setting.case.parameters, setting.world_size)
    given: dict[str, Given] = {}
    for parameter in map(setting.case.parameter, ids):
        _, shard = _cut(setting, parameter, cuts[parameter.id], written_by)
        if shard is None:
            bits = full_bits(setting.case, parameter, written_by)
            shard = _model_shard(setting, parameter, cuts[parameter.id], bits)
        given[parameter.id] = shard
    return given


def _spec(
    setting: Setting, parameter: Parameter, cut: Cut, written_by: int | str, earlier: Mapping[str, Spec]
) -> tuple[Spec, Given | None]:
    tied = earlier.get(parameter.tied_to or "")
    if tied is not None:
        full, given, shard = tied.full, None, tied.shard
    else:
        full, given = _cut(setting, parameter, cut, written_by)
        shard = given.shard if given is not None else None
    spec = Spec(
        id=parameter.id,
        shape=parameter.shape,
        dtype=torch_dtype(parameter.dtype),
        full=full,
        shard=shard,
        grad=_gradient_buffer(setting, parameter, cut),
        requires_grad=not parameter.frozen,
        tied_to=parameter.tied_to,
        comm_dtype=torch_dtype(parameter.comm_dtype) if parameter.comm_dtype else None,
    )
    return spec, given


def _cut(setting: Setting, parameter: Parameter, cut: Cut, written_by: int | str) -> tuple[torch.Tensor, Given | None]:
    """The whole parameter as `written_by` left it, and this rank's shard where the implementation has a `shard`."""
    memory = guarded(
        full_bits(setting.case, parameter, written_by).tobytes(),
        parameter.shape,
        torch_dtype(parameter.dtype),
        setting.device,
        strides=parameter.strides,
        storage_offset=parameter.storage_offset,
    )
    own = setting.loaded.function("shard")
    if own is None:
        return memory.tensor, None
    shard = own(memory.tensor, setting.rank, setting.world_size, **cut.options)
    if not isinstance(shard, torch.Tensor):
        raise TypeError(f"shard returned {type(shard).__name__}, expected a torch.Tensor")
    given = _own(setting, parameter, cut, shard)
    given.full_mutated = any(memory.changes())
    return memory.tensor, given


def _own(setting: Setting, parameter: Parameter, cut: Cut, shard: torch.Tensor) -> Given:
    """Move a contiguous shard into guarded memory and poison its padding; a strided one stays as it was returned."""
    shard = shard.detach()
    if not shard.is_contiguous():
        return Given(shard, None)
    contents = raw_bytes(shard)
    if shard.numel() == cut.layout.shard_numel(setting.rank):
        byte = setting.poison & 1 if parameter.dtype == "bool" else setting.poison
        owned = cut.layout.owned(setting.rank) * shard.element_size()
        contents = contents[:owned] + bytes((byte,)) * (len(contents) - owned)
    memory = guarded(contents, shard.shape, shard.dtype, setting.device, storage_offset=parameter.storage_offset)
    return Given(memory.tensor, memory)


def _model_shard(setting: Setting, parameter: Parameter, cut: Cut, bits: Any) -> Given:
    width = DTYPES[parameter.dtype].itemsize
    elements = bits.view(np.dtype((np.void, width)))
    shard = partition(elements, cut.layout)[setting.rank]
    dtype = torch_dtype(parameter.dtype)
    memory = guarded(shard.tobytes(), (shard.size,), dtype, setting.device)
    return Given(memory.tensor, memory)


def _gradient_buffer(setting: Setting, parameter: Parameter, cut: Cut) -> torch.Tensor | None:
    """What lies in the gradient's place; its contents mean nothing, so they are poison."""
    if parameter.frozen or parameter.grad_buffer == "absent":
        return None
    shape: tuple[int, ...] = parameter.shape
    if parameter.grad_buffer == "partition":
        shape = (cut.layout.shard_numel(setting.rank),)
    buffer = torch.empty(shape, dtype=torch_dtype(grad_dtype(parameter)), device=setting.device)
    poison_storage(buffer.untyped_storage(), setting.poison)
    return buffer


def _differ(parameters: list[Parameter], divergence: Divergence) -> list[Parameter]:
    """How the list of parameters differs on the diverging rank."""
    value: Any = divergence.value
    if divergence.kind == "order":
        return parameters[::-1]
    if divergence.kind == "missing":
        return [p for p in parameters if p.id != divergence.parameter]
    if divergence.kind == "extra":
        return [*parameters, Parameter("only-here", tuple(value))]
    changes = {
        "shape": lambda p: replace(p, shape=tuple(value), strides=None),
        "dtype": lambda p: replace(p, dtype=value),
        "id": lambda p: replace(p, id=value),
    }
    change = changes.get(divergence.kind)
    if change is None:
        return parameters
    return [change(p) if p.id == divergence.parameter else p for p in parameters]


class _Unreadable(Spec):
    """A spec whose tensors this rank cannot provide: reading them raises, on this rank alone."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("full", "shard"):
            raise RuntimeError("this rank cannot provide the parameter (planted by the case)")
        return super().__getattribute__(name)


def _tampered(spec: Spec, divergence: Divergence) -> Spec:
    """How one spec's tensors differ on the diverging rank."""
    if divergence.kind == "refuses" and divergence.parameter in (None, spec.id):
        return _Unreadable(
            spec.id, spec.shape, spec.dtype, spec.full, None, None, spec.requires_grad, spec.tied_to, spec.comm_dtype
        )
    if divergence.kind == "shard_numel" and divergence.parameter == spec.id and spec.shard is not None:
        length = max(0, spec.shard.numel() + int(divergence.value or 0))  # type: ignore[arg-type]  # an int by its kind
        other = torch.zeros(length, dtype=spec.dtype, device=spec.full.device)
        shared = min(length, spec.shard.numel())
        other[:shared] = spec.shard.reshape(-1)[:shared]
        spec.shard = other
    return spec
