"""Between bits and tensors, and the harness's own memory around what an implementation is given."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import string_at
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt
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

    They are read in place where they lie in order, else from a copy, and never through NumPy: memory that NumPy has
    seen can never be resized again, and whoever owns it may want to.
    """
    if tensor.is_cpu and tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg():
        nbytes, storage = tensor.nbytes, tensor.untyped_storage()
        if tensor.data_ptr() + nbytes <= storage.data_ptr() + storage.nbytes():
            return string_at(tensor.data_ptr(), nbytes)
    packed = tensor.detach().resolve_conj().resolve_neg().contiguous()
    # One element is contiguous whatever its stride, which a view as bytes does not take.
    flat = packed.as_strided((packed.numel(),), (1,)).view(torch.uint8)
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
    may be meant to.
    """

    tensor: torch.Tensor
    block: torch.Tensor
    inside: slice
    before: bytes

    def guards_broken(self) -> bool:
        """Whether memory around the tensor changed."""
        return self._differ(self._now())[1]

    def mutated(self) -> bool:
        """Whether the tensor's own bytes (for a strided one, its extent) changed."""
        return self._differ(self._now())[0]

    def changes(self) -> tuple[bool, bool]:
        """`mutated` and `guards_broken` at once; the bytes of now are the ones to keep from here on."""
        now = self._now()
        found = self._differ(now)
        self.before = now
        return found

    def _differ(self, now: bytes) -> tuple[bool, bool]:
        before, low, high = self.before, self.inside.start, self.inside.stop
        if now == before:
            return False, False
        return now[low:high] != before[low:high], now[:low] != before[:low] or now[high:] != before[high:]

    def _now(self) -> bytes:
        return raw_bytes(self.block)


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
    words = np.full(inside.stop + tail + _GUARD, _GUARD_BYTE, np.uint8)
    if bits.size and strides == row_major(shape):
        words[inside] = bits.view(np.uint8)
    elif bits.size:
        elements = np.dtype((np.void, dtype.itemsize))
        steps = [stride * dtype.itemsize for stride in strides]
        place: npt.NDArray[np.void] = np.ndarray(shape, elements, words.data, low, steps)
        place[...] = bits.view(elements).reshape(shape)
    before = words.tobytes()
    block = torch.from_numpy(words).to(device)
    tensor = block.view(dtype).as_strided(shape, strides, low // dtype.itemsize)
    return Guarded(tensor, block, inside, before)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Contiguous strides in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))
