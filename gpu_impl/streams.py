"""Keeps memory that several CUDA streams share in order, without the host ever waiting.

A `Trace` follows one piece of memory: who wrote it last, who reads it, and after what it may be overwritten. On the
CPU everything happens in program order and `ProgramOrder` has nothing to do.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch


@dataclass(slots=True)
class Trace:
    """One piece of memory's past.

    `ready` is the event after which it may be read; `readers` are streams that may still queue reads; `free` are
    events of readers that queue no more, after which it may be overwritten.
    """

    ready: Any = None
    free: list[Any] = field(default_factory=list)
    readers: list[Any] = field(default_factory=list)


class Order(Protocol):
    """What a session asks for around each use of shared memory, always for the current stream."""

    def writing(self, trace: Trace) -> None:
        """Before it overwrites: let every reader finish first."""

    def wrote(self, trace: Trace) -> None:
        """After it overwrote."""

    def reading(self, trace: Trace, memory: torch.Tensor) -> None:
        """Before it reads `memory`: let the writer finish first, and the allocator know."""

    def idle(self, trace: Trace) -> None:
        """Nobody queues another read; what is queued until now has to finish before the next write."""

    def aside(self) -> AbstractContextManager[object]:
        """Inside it, work is queued beside the current stream and not behind it."""


class ProgramOrder:
    """The CPU: what was called first happened first."""

    def writing(self, trace: Trace) -> None:
        """Nothing to wait for."""

    def wrote(self, trace: Trace) -> None:
        """Nothing to tell."""

    def reading(self, trace: Trace, memory: torch.Tensor) -> None:
        """Nothing to wait for."""

    def idle(self, trace: Trace) -> None:
        """Nothing to tell."""

    def aside(self) -> AbstractContextManager[object]:
        """There is no other stream."""
        return nullcontext()


class StreamOrder:
    """CUDA: events order the streams among themselves."""

    def __init__(self, device: torch.device) -> None:
        """One side stream for what is started ahead of its use."""
        self._device = device
        self._side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch has no annotation here

    def writing(self, trace: Trace) -> None:
        """The current stream waits for every other reader's queue as it is now."""
        current = torch.cuda.current_stream(self._device)
        for event in (*trace.free, *(reader.record_event() for reader in trace.readers if reader != current)):
            current.wait_event(event)
        trace.free.clear()

    def wrote(self, trace: Trace) -> None:
        """The current stream is the writer, and may go on reading."""
        current = torch.cuda.current_stream(self._device)
        trace.ready, trace.readers = current.record_event(), [current]

    def reading(self, trace: Trace, memory: torch.Tensor) -> None:
        """A stream's first read waits for the writer and keeps the allocator from recycling the memory too early."""
        current = torch.cuda.current_stream(self._device)
        if current not in trace.readers:
            current.wait_event(trace.ready)
            memory.record_stream(current)
            trace.readers.append(current)

    def idle(self, trace: Trace) -> None:
        """Turn readers into events."""
        trace.free.extend(reader.record_event() for reader in trace.readers)
        trace.readers.clear()

    def aside(self) -> AbstractContextManager[object]:
        """The side stream."""
        return torch.cuda.stream(self._side)


def order_for(device: torch.device) -> Order:
    """What keeps this device's memory in order."""
    return StreamOrder(device) if device.type == "cuda" else ProgramOrder()
