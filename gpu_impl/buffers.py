"""Gather buffers, and the bounded pool in which they wait to be used again.

A buffer is handed out as views of the true shape. Whether somebody still holds one is judged by who holds the memory,
so views of views, NumPy arrays and what autograd saved count as well. Held memory is never written to again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch.utils.dlpack import from_dlpack

from gpu_impl.seam import holders
from gpu_impl.streams import Order, Trace
from gpu_impl.transport import as_moved

POOL_BYTES = 1 << 30

Key = tuple[int, torch.dtype, torch.device]


@dataclass(slots=True, eq=False)
class Buffer:
    """`memory` (1-D, W*p elements) is what views are taken of; collectives write the same bytes through `receive`.

    `receive` has a storage object of its own: a backend's worker thread may hold its operands a moment longer than
    the collective lasts, and that must not look like a view which somebody holds. `alone` is what `holders` counts
    while nobody else holds the memory.
    """

    memory: torch.Tensor
    receive: torch.Tensor
    alone: int
    trace: Trace

    @property
    def key(self) -> Key:
        """What must match for the buffer to serve another parameter."""
        return self.memory.numel(), self.memory.dtype, self.memory.device

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.memory.nbytes

    def held(self) -> bool:
        """Whether somebody outside holds the memory."""
        return holders(self.memory) > self.alone


@dataclass(slots=True)
class Pool:
    """Buffers at rest, at most `limit` bytes of them, the longest unused given up first.

    `live_bytes` are in use, `idle_bytes` at rest, `peak_bytes` the most of both since it was last set back.
    """

    order: Order
    limit: int = POOL_BYTES
    live_bytes: int = 0
    idle_bytes: int = 0
    peak_bytes: int = 0
    _idle: dict[Key, list[Buffer]] = field(default_factory=dict)

    def take(self, key: Key) -> Buffer:
        """A buffer that nobody holds: one at rest where there is one, else fresh memory."""
        waiting = self._idle.get(key)
        if waiting:
            buffer = waiting.pop()
            self._took(key, waiting, buffer)
        else:
            buffer = _new(key, self.order)
        self.live_bytes += buffer.nbytes
        self.peak_bytes = max(self.peak_bytes, self.live_bytes + self.idle_bytes)
        return buffer

    def give(self, buffer: Buffer) -> None:
        """A buffer is not needed any more: keep it for reuse, or forget it where a view is still held."""
        self.forget(buffer)
        if buffer.nbytes > self.limit or buffer.held():
            return
        self.order.idle(buffer.trace)
        waiting = self._idle.pop(buffer.key, [])
        waiting.append(buffer)
        self._idle[buffer.key] = waiting  # at the end: given up last
        self.idle_bytes += buffer.nbytes
        while self.idle_bytes > self.limit:
            self._drop_oldest()

    def forget(self, buffer: Buffer) -> None:
        """A buffer leaves the books; its memory lives as long as somebody holds it."""
        self.live_bytes -= buffer.nbytes

    def clear(self) -> None:
        """Give up every buffer at rest."""
        self._idle.clear()
        self.idle_bytes = 0

    def _drop_oldest(self) -> None:
        key, waiting = next(iter(self._idle.items()))
        self._took(key, waiting, waiting.pop(0))

    def _took(self, key: Key, waiting: list[Buffer], buffer: Buffer) -> None:
        self.idle_bytes -= buffer.nbytes
        if not waiting:
            del self._idle[key]


def _new(key: Key, order: Order) -> Buffer:
    """Fresh memory; an ordinary tensor also under inference mode, where it could not be written to later."""
    numel, dtype, device = key
    with torch.inference_mode(False), torch.no_grad():
        memory = torch.empty(numel, dtype=dtype, device=device)
        receive = as_moved(from_dlpack(memory.view(torch.uint8)).view(dtype))
    buffer = Buffer(memory, receive, holders(memory), Trace())
    order.wrote(buffer.trace)
    return buffer
