"""What a session is given for a parameter, and what it keeps of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any, Protocol

import torch

from gpu_impl.arithmetic import check_shape, row_major, shard, shard_numel
from gpu_impl.buffers import Buffer, Key
from gpu_impl.streams import Trace
from gpu_impl.transport import as_moved


class Spec(Protocol):
    """One parameter as it is registered. Only `id`, `shape`, `dtype` and one of `shard` and `full` are needed.

    `shard` (1-D, p elements) becomes the session's own and is written by update, load and step; where it is None the
    shard is cut from `full` (the whole parameter, strided or not). `requires_grad` False: no gradient is reduced.
    `tied_to`: another name of a parameter of the same shape and dtype, whose shard, buffer and gradient it shares.
    `comm_dtype`: what gradients are sent in. A gradient buffer is never looked at: what lies there may be full-size,
    shard-size or missing, and the sizes follow from the shape.
    """

    id: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    full: torch.Tensor | None
    shard: torch.Tensor | None
    requires_grad: bool
    tied_to: str | None
    comm_dtype: torch.dtype | None


@dataclass(slots=True, eq=False)
class Parameter:
    """One registered parameter, and its gathered buffer while it has one.

    `index` counts in order of registration, the order in which ranks communicate. `send` is the shard as a gather
    sends it. `valid` says that `buffer` holds the complete parameter; `flight` is a gather under way.
    """

    id: str
    index: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    numel: int
    shard: torch.Tensor
    send: torch.Tensor
    key: Key
    trainable: bool
    comm_dtype: torch.dtype | None
    persistent: bool = False
    buffer: Buffer | None = None
    valid: bool = False
    flight: Any = None
    trace: Trace = field(default_factory=Trace)

    @property
    def dtype(self) -> torch.dtype:
        """The parameter's dtype."""
        return self.shard.dtype

    def owned(self, rank: int) -> int:
        """Elements of this rank's shard that are no padding."""
        length = self.shard.numel()
        return min(max(self.numel - rank * length, 0), length)


@dataclass(frozen=True, slots=True)
class Place:
    """For whom parameters are cut."""

    rank: int
    world_size: int
    alignment: int
    device: torch.device


def prepare(spec: Spec, index: int, place: Place) -> Parameter:
    """The parameter that a spec describes, by this rank alone. Raises TypeError or ValueError where it is none."""
    shape = _shape(spec.shape)
    if not isinstance(spec.dtype, torch.dtype):
        raise TypeError(f"dtype is {spec.dtype!r}, expected a torch.dtype")
    comm_dtype = getattr(spec, "comm_dtype", None)
    if comm_dtype is not None and not isinstance(comm_dtype, torch.dtype):
        raise TypeError(f"comm_dtype is {comm_dtype!r}, expected a torch.dtype or None")
    numel = prod(shape)
    own = _shard(spec, shape, place)
    return Parameter(
        id=spec.id,
        index=index,
        shape=shape,
        strides=row_major(shape),
        numel=numel,
        shard=own,
        send=as_moved(own),
        key=(place.world_size * own.numel(), spec.dtype, own.device),
        trainable=bool(getattr(spec, "requires_grad", True)),
        comm_dtype=comm_dtype,
    )


def _shape(shape: Any) -> tuple[int, ...]:
    sizes = tuple(shape)
    if not all(isinstance(size, int) for size in sizes):
        raise TypeError(f"shape is {sizes}, expected integers")
    check_shape(sizes)
    return sizes


def _shard(spec: Spec, shape: tuple[int, ...], place: Place) -> torch.Tensor:
    """This rank's shard: the one that is given where there is one, else cut from the whole."""
    full, given = getattr(spec, "full", None), getattr(spec, "shard", None)
    if full is not None:
        _check_tensor("full", full, spec.dtype)
        if tuple(full.shape) != shape:
            raise ValueError(f"full has shape {tuple(full.shape)}, expected {shape}")
    if given is None:
        if full is None:
            raise ValueError("neither shard nor full is given, expected one of them")
        return shard(full, place.rank, place.world_size, place.alignment).to(place.device)
    _check_tensor("shard", given, spec.dtype)
    expected = shard_numel(prod(shape), place.world_size, place.alignment)
    if tuple(given.shape) != (expected,):
        raise ValueError(
            f"shard has shape {tuple(given.shape)}, expected ({expected},): {prod(shape)} elements of shape {shape} "
            f"over {place.world_size} ranks"
        )
    if given.device.type != place.device.type:
        raise ValueError(f"shard is on {given.device}, expected {place.device}")
    with torch.inference_mode(False), torch.no_grad():
        # Only memory that can be written to later and sent as it is can be used as it is.
        usable = given.is_contiguous() and not given.is_inference()
        own: torch.Tensor = given.detach()
        return own if usable else own.clone(memory_format=torch.contiguous_format)


def _check_tensor(what: str, value: Any, dtype: torch.dtype) -> None:
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{what} is {type(value).__name__}, expected a torch.Tensor")
    if value.dtype != dtype:
        raise TypeError(f"{what} has dtype {value.dtype}, expected {dtype}")
