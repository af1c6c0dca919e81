"""Keeps memory that several CUDA streams share in order, without the host ever waiting.

A `Trace` follows one piece of memory: who wrote it last, who reads it, and after what it may be overwritten. On the
CPU everything happens in program order and `ProgramOrder` has nothing to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch


@dataclass(frozen=True, slots=True)
class Point:
    """A stream, or an event on one, and whether it belongs to a CUDA graph that is being captured."""

    of: Any
    captured: bool


@dataclass(slots=True)
class Trace:
    """One piece of memory's past.

    `ready` is the event after which it may be read; `readers` are streams that may still queue reads; `free` are
    events of readers that queue no more, after which it may be overwritten.
    """

    ready: Point | None = None
    free: list[Point] = field(default_factory=list)
    readers: list[Point] = field(default_factory=list)


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
    """CUDA: events order the streams among themselves.

    A graph under capture cannot wait for events from outside it, and nothing outside can wait for events inside. It
    need not: capturing starts on a device that has finished what was queued (torch.cuda.graph sees to that), and who
    replays a graph orders it. So a point counts only for its own side.
    """

    def __init__(self, device: torch.device) -> None:
        """One side stream for what is started ahead of its use."""
        self._device = device
        self._side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch has no annotation here

    def writing(self, trace: Trace) -> None:
        """The current stream waits for every other reader's queue as it is now."""
        here = self._here()
        self._finish(trace, [reader for reader in trace.readers if reader != here])
        for event in trace.free:
            self._follow(here, event)
        trace.free.clear()

    def wrote(self, trace: Trace) -> None:
        """The current stream is the writer, and may go on reading."""
        here = self._here()
        trace.ready, trace.readers = Point(here.of.record_event(), here.captured), [here]

    def reading(self, trace: Trace, memory: torch.Tensor) -> None:
        """A stream's first read waits for the writer and keeps the allocator from recycling the memory too early."""
        here = self._here()
        if here not in trace.readers:
            self._follow(here, trace.ready)
            memory.record_stream(here.of)
            trace.readers.append(here)

    def idle(self, trace: Trace) -> None:
        """Turn readers into events."""
        self._finish(trace, trace.readers)
        trace.readers.clear()

    def aside(self) -> AbstractContextManager[object]:
        """The side stream; under capture the current one, which the graph knows."""
        return nullcontext() if self._here().captured else torch.cuda.stream(self._side)

    def _here(self) -> Point:
        """The current stream."""
        return Point(torch.cuda.current_stream(self._device), torch.cuda.is_current_stream_capturing())

    def _finish(self, trace: Trace, readers: Sequence[Point]) -> None:
        """Events after what these readers have queued until now."""
        captured = torch.cuda.is_current_stream_capturing()
        trace.free.extend(
            Point(reader.of.record_event(), captured) for reader in readers if reader.captured == captured
        )

    def _follow(self, here: Point, event: Point | None) -> None:
        """The current stream goes on after the event."""
        if event is not None and event.captured == here.captured:
            here.of.wait_event(event.of)


def order_for(device: torch.device) -> Order:
    """What keeps this device's memory in order."""
    return StreamOrder(device) if device.type == "cuda" else ProgramOrder()
