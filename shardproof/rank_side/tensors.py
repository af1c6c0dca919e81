"""Between bits and tensors, and the harness's own memory around what an implementation is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import torch

from invariants import Seen
from shardproof.values import Bits

# Guard bytes on either side: a whole cache line, so that a guarded tensor is as aligned as a fresh one.
_GUARD = 64
_GUARD_BYTE = 0x5A


def torch_dtype(name: str) -> torch.dtype:
    """The torch dtype of that name."""
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def dtype_name(dtype: torch.dtype) -> str:
    """The name without the module."""
    return str(dtype).removeprefix("torch.")


def raw_bytes(tensor: torch.Tensor) -> bytes:
    """The logical elements' bytes in row-major order; on CUDA this waits for the current stream.

    They are read from a copy: memory that NumPy has seen can never be resized again, and whoever owns it may want to.
    """
    flat = tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
    return flat.to("cpu", copy=True).numpy().tobytes()


def see(tensor: torch.Tensor) -> Seen:
    """Everything a law may ask about a tensor."""
    storage = tensor.untyped_storage()
    return Seen(
        dtype=dtype_name(tensor.dtype),
        shape=tuple(tensor.shape),
        bits=raw_bytes(tensor),
        device=tensor.device.type,
        strides=tensor.stride(),
        offset=int(tensor.storage_offset()),
        storage=storage.data_ptr(),
        storage_nbytes=storage.nbytes(),
    )


@dataclass(slots=True)
class Guarded:
    """A tensor inside a larger block of the harness's memory: guard, `storage_offset` elements, tensor, guard.

    `block` is the whole block as bytes. What is not part of the tensor must never change; the tensor's own bytes
    may be declared changed by `renew` where an operation was meant to change them.
    """

    tensor: torch.Tensor
    block: torch.Tensor
    inside: slice
    before: bytes

    def guards_broken(self) -> bool:
        """Whether memory around the tensor changed."""
        now, low, high = self._now(), self.inside.start, self.inside.stop
        return now[:low] != self.before[:low] or now[high:] != self.before[high:]

    def mutated(self) -> bool:
        """Whether the tensor's own bytes (for a strided one, its extent) changed."""
        return self._now()[self.inside] != self.before[self.inside]

    def renew(self) -> None:
        """Take the bytes of now as the ones to keep."""
        self.before = self._now()

    def _now(self) -> bytes:
        return self.block.cpu().numpy().tobytes()


def guarded(
    bits: Bits,
    shape: Sequence[int],
    dtype: torch.dtype,
    device: torch.device,
    *,
    strides: Sequence[int] | None = None,
    storage_offset: int = 0,
) -> Guarded:
    """A tensor of these bits (row-major order) with guards around it; `strides` in elements, None for row-major."""
    shape = tuple(shape)
    strides = tuple(strides) if strides is not None else row_major(shape)
    extent = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if prod(shape) else 0
    low = _GUARD + storage_offset * dtype.itemsize
    inside = slice(low, low + extent * dtype.itemsize)
    tail = -inside.stop % dtype.itemsize
    block = torch.from_numpy(np.full(inside.stop + tail + _GUARD, _GUARD_BYTE, np.uint8)).to(device)
    typed = block[: block.numel() // dtype.itemsize * dtype.itemsize].view(dtype)
    tensor = typed.as_strided(shape, strides, low // dtype.itemsize)
    if bits.size:
        source = torch.from_numpy(bits.view(np.uint8)).view(dtype).reshape(shape)
        tensor.copy_(source.to(device))
    return Guarded(tensor, block, inside, block.cpu().numpy().tobytes())


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Contiguous strides in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))
