"""What each operation of a session cost, in records that all have the same keys."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import torch

from gpu_impl.buffers import Pool

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Record:
    """One operation. Memory in bytes, times in seconds.

    `alloc_mem` is what it added to the memory in use (negative: gave back), `max_mem` the most it had in use beyond
    what was in use before. On CUDA both are the allocator's; on the CPU, where torch keeps no such books, those of the
    session's buffers. `device_time` lies between two events on the current CUDA stream, and on the CPU is `wall_time`.
    """

    operation: str
    alloc_mem: int
    max_mem: int
    device_time: float
    wall_time: float


@dataclass(slots=True)
class Profiler:
    """Watches operations; nothing waits for the device until `records` is called."""

    pool: Pool
    device: torch.device
    _seen: list[tuple[str, int, int, float, tuple[Any, Any] | None]] = field(default_factory=list)

    def run(self, operation: str, act: Callable[[], Result]) -> Result:
        """Perform one operation and write down what it cost; one that raises leaves no record."""
        before, start, began = self._reset_peak(), self._event(), time.perf_counter()
        result = act()
        seconds, events = time.perf_counter() - began, None if start is None else (start, self._event())
        used, peak = self._used()
        self._seen.append((operation, used - before, peak - before, seconds, events))
        return result

    def records(self) -> list[Record]:
        """All records so far; on CUDA waits until the recorded operations are done."""
        return [
            Record(operation, alloc, peak, wall if events is None else _elapsed(*events), wall)
            for operation, alloc, peak, wall, events in self._seen
        ]

    def _event(self) -> Any:
        if self.device.type != "cuda":
            return None
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch has no annotation here
        event.record(torch.cuda.current_stream(self.device))
        return event

    def _reset_peak(self) -> int:
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
        self.pool.peak_bytes = self.pool.live_bytes + self.pool.idle_bytes
        return self._used()[0]

    def _used(self) -> tuple[int, int]:
        """Bytes in use now, and the most since the peak was set back."""
        if self.device.type == "cuda":
            return torch.cuda.memory_allocated(self.device), torch.cuda.max_memory_allocated(self.device)
        return self.pool.live_bytes + self.pool.idle_bytes, self.pool.peak_bytes


class Profiled(Protocol):
    """Something that may have a profiler."""

    profiler: Profiler | None


Owner = TypeVar("Owner", bound=Profiled)


def recorded(
    method: Callable[Concatenate[Owner, Arguments], Result],
) -> Callable[Concatenate[Owner, Arguments], Result]:
    """A method that leaves a record of each call while its owner has a profiler."""

    @wraps(method)
    def call(self: Owner, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if self.profiler is None:
            return method(self, *args, **kwargs)
        return self.profiler.run(method.__name__, lambda: method(self, *args, **kwargs))

    return call


def _elapsed(start: Any, end: Any) -> float:
    end.synchronize()
    milliseconds: float = start.elapsed_time(end)
    return milliseconds / 1000
