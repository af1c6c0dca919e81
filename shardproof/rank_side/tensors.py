"""Between bits and tensors, and the harness's own memory around what an implementation is given."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import string_at
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from invariants import Seen

# Guard bytes on either side: a whole cache line, so that a guarded tensor is as aligned as a fresh one.
_GUARD = b"\x5a" * 64


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

    `block` is the whole block as bytes, and `address` where it lies, if on the CPU. What is not part of the tensor must
    never change; the tensor's own bytes may be meant to.
    """

    tensor: torch.Tensor
    block: torch.Tensor
    inside: slice
    before: bytes
    address: int | None

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
        return raw_bytes(self.block) if self.address is None else string_at(self.address, len(self.before))


def guarded(
    bits: bytes,
    shape: Sequence[int],
    dtype: torch.dtype,
    device: torch.device,
    *,
    strides: Sequence[int] | None = None,
    storage_offset: int = 0,
) -> Guarded:
    """A tensor of these bytes (row-major order) with guards around it; `strides` in elements, None for row-major."""
    shape, width = tuple(shape), dtype.itemsize
    plain = row_major(shape)
    strides = plain if strides is None else tuple(strides)
    extent = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) if bits else 0
    low = len(_GUARD) + storage_offset * width
    inside = slice(low, low + extent * width)
    after = _GUARD + _GUARD[:1] * (-inside.stop % width)
    if strides == plain:
        words = bytearray(b"".join((_GUARD, _GUARD[:1] * (storage_offset * width), bits, after)))
    else:
        words = bytearray(_GUARD[:1] * (inside.stop + len(after)))
        elements = np.dtype((np.void, width))
        place: npt.NDArray[np.void] = np.ndarray(shape, elements, words, low, [stride * width for stride in strides])
        place[...] = np.frombuffer(bits, elements).reshape(shape)
    block = torch.frombuffer(words, dtype=torch.uint8).to(device)
    tensor = block.view(dtype).as_strided(shape, strides, low // width)
    return Guarded(tensor, block, inside, bytes(words), block.data_ptr() if block.is_cpu else None)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Contiguous strides in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))
