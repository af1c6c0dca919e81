"""The order between CUDA streams, judged by what happens before what: no GPU is needed to be wrong about it.

Streams are modelled by what must have happened before their next operation; events carry that from one to another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
import torch

from gpu_impl import gathering, reducing, streams
from gpu_impl.buffers import POOL_BYTES, Pool
from gpu_impl.parameters import Place
from gpu_impl.registration import register
from gpu_impl.state import State
from gpu_impl.streams import ProgramOrder, StreamOrder, Trace, order_for
from tests.gpu_impl.support import given, ramp

CPU = torch.device("cpu")


@dataclass(eq=False)
class Stream:
    """`before`: names of all operations that come before the next one queued here.

    A stream of a graph under capture and one outside it refuse each other's events, as CUDA does.
    """

    before: set[str] = field(default_factory=set)
    graph: bool = False
    recorded: int = 0

    def record_event(self) -> tuple[frozenset[str], bool]:
        self.recorded += 1
        return frozenset(self.before), self.graph

    def wait_event(self, event: tuple[frozenset[str], bool]) -> None:
        before, graph = event
        assert graph == self.graph, "an event of a graph and one outside it"
        self.before |= before


class Device:
    """Streams of one device, and the operations queued so far with what came before each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.main = self.current = Stream()
        self.told: list[Stream] = []
        self.history: dict[str, set[str]] = {}
        monkeypatch.setattr(streams, "current", lambda _device: (self.current, self.current.graph))
        monkeypatch.setattr(torch.cuda, "current_stream", lambda _device: self.current)
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: self.current.graph)
        monkeypatch.setattr(torch.cuda, "Stream", lambda _device: Stream())
        monkeypatch.setattr(torch.cuda, "stream", self.on)
        monkeypatch.setattr(torch.Tensor, "record_stream", lambda _tensor, stream: self.told.append(stream))

    @contextmanager
    def on(self, stream: Stream) -> Iterator[None]:
        outside, self.current = self.current, stream
        yield
        self.current = outside

    def queue(self, name: str, stream: Stream | None = None) -> None:
        stream = stream or self.current
        self.history[name] = set(stream.before)
        stream.before.add(name)


class Group:
    def rank(self) -> int:
        return 0

    def size(self) -> int:
        return 1


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    return Device(monkeypatch)


@pytest.fixture
def state(device: Device, monkeypatch: pytest.MonkeyPatch) -> State:
    """Two parameters of equal size. As with NCCL, a collective that is waited for at once runs on the current stream,
    and one that is started ahead on a stream of the backend's own.
    """
    internals, numbers = {graph: Stream(graph=graph) for graph in (False, True)}, count()

    class Work:
        def wait(self) -> None:
            device.current.wait_event(internals[device.current.graph].record_event())

    def start(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]], _group: Any) -> Work:
        internal = internals[device.current.graph]
        internal.wait_event(device.current.record_event())
        device.queue(f"collective {next(numbers)}", internal)
        for receive, send in pairs:
            receive.copy_(send)
        return Work()

    def at_once(receive: torch.Tensor, send: torch.Tensor, _group: Any) -> None:
        device.queue(f"collective {next(numbers)}")
        receive.copy_(send)

    monkeypatch.setattr(gathering, "start_all_gather", start)
    monkeypatch.setattr(gathering, "all_gather", at_once)
    monkeypatch.setattr("gpu_impl.registration.exchange", lambda *_args, **_kwargs: None)
    monkeypatch.setattr(reducing, "reduce_scatter", lambda _receive, _send, _group: device.queue("reduce"))
    order = StreamOrder(CPU)
    made = State(Group(), Place(0, 1, 1, CPU), order, Pool(order, POOL_BYTES))  # type: ignore[arg-type]  # a stand-in
    register(made, [given("a", ramp(4)), given("b", ramp(4, start=10))])
    return made


def collective(device: Device) -> set[str]:
    """What came before the last collective."""
    return device.history[[name for name in device.history if name.startswith("collective")][-1]]


def test_a_prefetch_sends_what_was_updated_before(device: Device, state: State) -> None:
    gathering.gather(state, "b")
    gathering.release(state, "b")  # its buffer is at rest: nothing but the shard itself says what came before
    device.queue("make the new shard")
    gathering.update(state, "a", torch.zeros(4))
    gathering.prefetch(state, ["a"])
    assert "make the new shard" in collective(device)


def test_a_prefetch_does_not_queue_behind_unrelated_work(device: Device, state: State) -> None:
    gathering.gather(state, "a")
    gathering.release(state, "a")
    device.queue("unrelated")
    gathering.prefetch(state, ["b"])
    assert "unrelated" not in collective(device)
    gathering.gather(state, "b")
    device.queue("use b")
    assert "collective 1" in device.history["use b"]


def test_a_buffer_is_overwritten_after_its_last_reader(device: Device, state: State) -> None:
    other = Stream()
    with device.on(other):
        gathering.gather(state, "a")
        device.queue("read on the other stream")
    gathering.gather(state, "a")
    device.queue("read on the main stream")
    gathering.release(state, "a")
    gathering.prefetch(state, ["b"])
    assert {"read on the other stream", "read on the main stream"} <= collective(device)


def test_a_stale_buffer_is_overwritten_after_its_last_reader(device: Device, state: State) -> None:
    gathering.gather(state, "a")
    device.queue("read")
    gathering.invalidate(state, state.find("a"))
    device.queue("read late")
    gathering.prefetch(state, ["a"])
    assert {"read", "read late"} <= collective(device)


def test_a_reader_on_another_stream_waits_and_the_allocator_is_told(device: Device, state: State) -> None:
    gathering.gather(state, "a")
    other = Stream()
    with device.on(other):
        gathering.gather(state, "a")
        gathering.gather(state, "a")
        device.queue("use")
    assert "collective 0" in device.history["use"]
    assert device.told.count(other) == 1


def test_gathers_in_a_loop_record_no_event_and_others_still_wait_for_the_last(device: Device, state: State) -> None:
    parameter = state.find("a")
    gathering.gather(state, "a")
    recorded = device.main.recorded
    for _ in range(3):
        parameter.valid = False  # as after an invalidate, which records its own
        gathering.gather(state, "a")
    assert device.main.recorded == recorded
    with device.on(Stream()):
        gathering.gather(state, "a")
        device.queue("use")
    assert "collective 3" in device.history["use"]
    parameter.valid = False
    gathering.gather(state, "a")
    assert "use" in collective(device)


@pytest.mark.parametrize("waited_on", ["main", "other"])
def test_a_shard_is_overwritten_after_it_was_sent(device: Device, state: State, waited_on: str) -> None:
    places = {"main": device.main, "other": Stream()}
    gathering.prefetch(state, ["a"])
    with device.on(places[waited_on]):
        gathering.gather(state, "a")
    gathering.update(state, "a", torch.ones(4))
    device.queue("after the update")
    assert "collective 0" in device.history["after the update"]


@pytest.mark.parametrize("act", [gathering.release, lambda state, id: gathering.invalidate(state, state.find(id))])
def test_what_is_under_way_is_waited_for(device: Device, state: State, act: Callable[[State, str], None]) -> None:
    gathering.prefetch(state, ["a"])
    act(state, "a")
    device.queue("after")
    assert "collective 0" in device.history["after"]


def test_gradients_are_sent_after_they_were_added_up(device: Device, state: State) -> None:
    other = Stream()
    with device.on(other):
        device.queue("backward")
        reducing.accumulate(state, {"a": torch.ones(4)})
    reducing.reduce(state, {}, "sum")
    assert "backward" in device.history["reduce"]


def again(state: State, id: str) -> None:
    """A warm gather that communicates."""
    gathering.invalidate(state, state.find(id))
    gathering.gather(state, id)


def test_a_warm_gather_can_be_captured(device: Device, state: State) -> None:
    gathering.gather(state, "a")
    with device.on(Stream(graph=True)):
        again(state, "a")
        device.queue("use inside")
        again(state, "a")
        gathering.prefetch(state, ["b"])
        gathering.gather(state, "b")
        gathering.release(state, "b")
        device.queue("end")
    assert "collective 1" in device.history["use inside"]
    assert {"use inside", "collective 2", "collective 3"} <= device.history["end"]
    gathering.gather(state, "b")
    again(state, "a")
    gathering.update(state, "a", torch.ones(4))
    device.queue("updated")
    again(state, "a")
    assert "updated" in collective(device)


def test_the_cpu_needs_no_order() -> None:
    order, trace = order_for(CPU), Trace()
    assert isinstance(order, ProgramOrder)
    order.wrote(trace)
    assert order.settled(trace, Trace())
    order.rewrote(trace)
    order.reading(trace, torch.zeros(1))
    order.writing(trace)
    order.idle(trace)
    with order.aside():
        assert trace == Trace()
