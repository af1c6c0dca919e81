"""Keeps memory that several CUDA streams share in order, without the host ever waiting.

A `Trace` follows one piece of memory: who wrote it last, who reads it, and after what it may be overwritten. On the
CPU everything happens in program order and `ProgramOrder` has nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch

from gpu_impl.seam import Work, current


@dataclass(frozen=True, slots=True)
class Point:
    """A place in a stream: at an event, or (event None) wherever the stream is when somebody has to wait for it.

    `captured` says whether it belongs to a CUDA graph that is being captured.
    """

    stream: Any
    captured: bool
    event: Any = None


@dataclass(slots=True)
class Trace:
    """One piece of memory's past.

    `ready` is the point after which it may be read; `readers` are streams that may still queue reads; `free` are
    events of readers that queue no more, after which it may be overwritten.
    """

    ready: Point | None = None
    free: list[Point] = field(default_factory=list)
    readers: list[Point] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Passed:
    """Work that a stream is done with at an event; None: it is done already."""

    event: Any = None

    def wait(self) -> None:
        """The current stream goes on after it."""
        if self.event is not None:
            torch.cuda.current_stream().wait_event(self.event)


class Order(Protocol):
    """What a session asks for around each use of shared memory, always for the current stream."""

    def settled(self, source: Trace, target: Trace) -> bool:
        """Whether the current stream alone writes and reads both, so that its own order is enough."""

    def rewrote(self, trace: Trace) -> None:
        """After it overwrote memory that is settled: what others wait for is the stream itself from now on."""

    def writing(self, *traces: Trace) -> None:
        """Before it overwrites: let every reader finish first."""

    def wrote(self, *traces: Trace) -> None:
        """After it overwrote."""

    def reading(self, trace: Trace, memory: torch.Tensor) -> None:
        """Before it reads `memory`: let the writer finish first, and the allocator know."""

    def idle(self, trace: Trace) -> None:
        """Nobody queues another read; what is queued until now has to finish before the next write."""

    def aside(self) -> AbstractContextManager[object]:
        """Inside it, work is queued beside the current stream and not behind it."""

    def passed(self) -> Work:
        """What was queued until now, to be waited for."""


class ProgramOrder:
    """The CPU: what was called first happened first."""

    def settled(self, source: Trace, target: Trace) -> bool:  # noqa: ARG002  # what every order is asked
        """There is one order."""
        return True

    def rewrote(self, trace: Trace) -> None:
        """Nothing to tell."""

    def writing(self, *traces: Trace) -> None:
        """Nothing to wait for."""

    def wrote(self, *traces: Trace) -> None:
        """Nothing to tell."""

    def reading(self, trace: Trace, memory: torch.Tensor) -> None:
        """Nothing to wait for."""

    def idle(self, trace: Trace) -> None:
        """Nothing to tell."""

    def aside(self) -> AbstractContextManager[object]:
        """There is no other stream."""
        return nullcontext()

    def passed(self) -> Work:
        """It is done."""
        return Passed()


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
        self._seen: dict[object, Point] = {}

    def settled(self, source: Trace, target: Trace) -> bool:
        """A gather in a loop comes here every time, and this is all that it asks of the driver."""
        here = self._here()
        return _alone(source, here) and _alone(target, here)

    def rewrote(self, trace: Trace) -> None:
        """No event: should another stream ever read, it waits for all that this one has queued by then."""
        trace.ready = trace.readers[0]

    def writing(self, *traces: Trace) -> None:
        """The current stream waits for every other reader's queue as it is now, once for all traces."""
        here = self._here()
        readers = {id(reader): reader for trace in traces for reader in trace.readers if reader is not here}
        free = {id(event): event for trace in traces for event in trace.free}
        for event in (*free.values(), *self._events(readers.values())):
            self._follow(here, event)
        for trace in traces:
            trace.free.clear()

    def wrote(self, *traces: Trace) -> None:
        """The current stream is the writer, and may go on reading."""
        here = self._here()
        ready = replace(here, event=here.stream.record_event())
        for trace in traces:
            trace.ready, trace.readers = ready, [here]

    def reading(self, trace: Trace, memory: torch.Tensor) -> None:
        """A stream's first read waits for the writer and keeps the allocator from recycling the memory too early."""
        here = self._here()
        if all(reader is not here for reader in trace.readers):
            self._follow(here, trace.ready)
            memory.record_stream(here.stream)
            trace.readers.append(here)

    def idle(self, trace: Trace) -> None:
        """Turn readers into events."""
        trace.free.extend(self._events(trace.readers))
        trace.readers.clear()

    def aside(self) -> AbstractContextManager[object]:
        """The side stream; under capture the current one, which the graph knows."""
        return nullcontext() if self._here().captured else torch.cuda.stream(self._side)

    def passed(self) -> Work:
        """An event of the current stream."""
        return Passed(self._here().stream.record_event())

    def _here(self) -> Point:
        """The current stream: one object for as long as it is the same one."""
        key = current(self._device)
        point = self._seen.get(key)
        if point is None:
            stream = torch.cuda.current_stream(self._device)
            point = self._seen[key] = Point(stream, torch.cuda.is_current_stream_capturing())
        return point

    def _events(self, readers: Iterable[Point]) -> list[Point]:
        """Events after what these readers have queued until now."""
        captured = torch.cuda.is_current_stream_capturing()
        return [
            replace(reader, event=reader.stream.record_event()) for reader in readers if reader.captured == captured
        ]

    def _follow(self, here: Point, point: Point | None) -> None:
        """The current stream goes on after the point."""
        if point is not None and point.captured == here.captured:
            here.stream.wait_event(point.event or point.stream.record_event())


def _alone(trace: Trace, here: Point) -> bool:
    """Whether only this stream wrote the memory and reads it."""
    readers, ready = trace.readers, trace.ready
    if len(readers) != 1 or readers[0] is not here or trace.free or ready is None:
        return False
    return ready.stream is here.stream and ready.captured == here.captured


def order_for(device: torch.device) -> Order:
    """What keeps this device's memory in order."""
    return StreamOrder(device) if device.type == "cuda" else ProgramOrder()
