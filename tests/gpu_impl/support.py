"""What the tests of this room share: specs, contents that differ in every bit, and what a rank watches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

import gpu_impl

CPU = torch.device("cpu")
MOVED = [
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
    "complex64",
    "complex128",
    "float8_e4m3fn",
    "float8_e5m2",
]

Answer = tuple[Any, Sequence[bytes]]


@dataclass
class Given:
    """One parameter as a test registers it."""

    id: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    full: torch.Tensor | None
    shard: torch.Tensor | None = None
    grad: torch.Tensor | None = None
    requires_grad: bool = True
    tied_to: str | None = None
    comm_dtype: torch.dtype | None = None


def given(id: str, whole: torch.Tensor, **changes: Any) -> Given:
    """A spec for a whole parameter."""
    return Given(**{"id": id, "shape": tuple(whole.shape), "dtype": whole.dtype, "full": whole} | changes)


def session_of(context: Any, world_size: int, **options: Any) -> gpu_impl.Session:
    """A session over the first ranks of the pool."""
    alignment = options.pop("alignment", 1)
    layout = {"kind": "flat_padded", "alignment": alignment}
    return gpu_impl.Session(context.group(tuple(range(world_size))), CPU, layout, **options)


def registered(context: Any, world_size: int, fulls: Mapping[str, torch.Tensor], **options: Any) -> gpu_impl.Session:
    """A session in which these whole parameters are registered."""
    session = session_of(context, world_size, **options)
    session.register([given(id, full) for id, full in fulls.items()])
    return session


def bits(shape: Sequence[int], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """A tensor of arbitrary bits (NaN payloads included), the same on every rank for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(0, 256, (prod(shape) * dtype.itemsize,), generator=generator, dtype=torch.uint8)
    if dtype == torch.bool:
        words &= 1
    return words.view(dtype).reshape(tuple(shape))


def raw(tensor: torch.Tensor) -> bytes:
    """The logical elements' bytes."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def ramp(*shape: int, start: int = 0) -> torch.Tensor:
    """float32 numbers that say where they belong."""
    return torch.arange(start, start + prod(shape), dtype=torch.float32).reshape(shape)


def listed(shard: torch.Tensor, shape: Sequence[int], group: dist.ProcessGroup) -> torch.Tensor:
    """A gather said with torch alone: a list of received shards, joined and cut to size."""
    send = shard.contiguous().view(torch.uint8)
    received = [torch.empty_like(send) for _ in range(group.size())]
    dist.all_gather(received, send, group=group)
    return torch.cat(received).view(shard.dtype)[: prod(shape)].reshape(tuple(shape))


def chunked(full: torch.Tensor, rank: int, world_size: int, alignment: int = 1) -> torch.Tensor:
    """A shard said with torch alone: pad the flattened whole, take the rank's chunk."""
    flat = full.contiguous().reshape(-1)
    block = alignment * world_size
    padding = -(-flat.numel() // world_size) * world_size - flat.numel()
    padding += -(flat.numel() + padding) % block
    return torch.cat([flat, flat.new_zeros(padding)]).chunk(world_size)[rank] if flat.numel() else flat


class Watch(TorchDispatchMode):
    """Counts what reaches the dispatcher by name; names of c10d operations keep their namespace."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run it and write it down."""
        name = func._schema.name
        self.seen.append(name.removeprefix("aten::"))
        return func(*args, **(kwargs or {}))

    @property
    def collectives(self) -> list[str]:
        """The collectives among them."""
        return [name for name in self.seen if name.startswith("c10d::")]
