"""What the stream tests run on a rank: each scenario is slowed down where a missing wait would be seen.

A scenario says whether every value was what program order promises. A plant takes one piece of the stream bookkeeping
out of `gpu_impl` for as long as the scenario runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch

from gpu_impl import gathering
from gpu_impl.streams import StreamOrder
from shardproof.ranks import Context
from tests.gpu.entries import session_of

Answer = tuple[Any, Sequence[bytes]]
NUMEL = 1 << 20
# Cycles that the card's clock takes some tens of milliseconds for: far longer than a gather of NUMEL elements.
_CYCLES = 60_000_000


def in_order(context: Context, payload: dict[str, Any], blobs: Sequence[bytes]) -> Answer:  # the pool's form
    """Whether the scenario's values were right, with or without the plant."""
    fulls = {id: torch.full((NUMEL,), value, device=context.device) for id, value in (("a", 1.0), ("b", 2.0))}
    session = session_of(context, payload["ranks"], fulls)
    for id in fulls:  # buffers exist and NCCL is connected before anything is slowed down
        session.gather(id)
        session.release(id)
    torch.cuda.synchronize()
    with PLANTS[payload["plant"]](session):
        right = SCENARIOS[payload["scenario"]](session)
    torch.cuda.synchronize()
    return bool(right()), ()


def _slow() -> None:
    torch.cuda._sleep(_CYCLES)  # type: ignore[no-untyped-call]  # torch's


def _filled(tensor: torch.Tensor, value: float) -> Callable[[], bool]:
    """Asked once everything is done; the copy is queued now, on the current stream."""
    copy = tensor.clone()
    return lambda: bool((copy == value).all())


def _prefetch_sends_the_update(session: Any) -> Callable[[], bool]:
    """The update is queued behind slow work when the prefetch starts beside it."""
    _slow()
    session.update("a", torch.full_like(session.shard("a"), 7.0))
    session.prefetch(["a"])
    return _filled(session.wait("a"), 7.0)


def _consumer_waits_for_arrival(session: Any) -> Callable[[], bool]:
    """The collective is behind slow work on its own stream when its result is used."""
    with session._state.order.aside():
        _slow()
    session.prefetch(["a"])
    return _filled(session.wait("a"), 1.0)


def _reader_elsewhere_keeps_the_buffer(session: Any) -> Callable[[], bool]:
    """Another stream reads slowly while the buffer is released and gathered into again."""
    session.gather("a")
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]  # torch's
        view = session.gather("a")
        _slow()
        right = _filled(view, 1.0)
    del view
    session.release("a")
    session.gather("b")
    return right


def _allocator_waits_for_the_reader(session: Any) -> Callable[[], bool]:
    """Another stream reads slowly while the memory goes back to the allocator, which is asked for as much again."""
    session.gather("a")
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]  # torch's
        view = session.gather("a")
        _slow()
        right = _filled(view, 1.0)
    nbytes = view.untyped_storage().nbytes()
    del view
    session.release("a")
    session.trim()
    pressure = [torch.full((nbytes,), 0xFF, dtype=torch.uint8, device="cuda") for _ in range(4)]
    return lambda: right() and all(block.nbytes == nbytes for block in pressure)


SCENARIOS = {
    "prefetch sends the update": _prefetch_sends_the_update,
    "consumer waits for arrival": _consumer_waits_for_arrival,
    "reader elsewhere keeps the buffer": _reader_elsewhere_keeps_the_buffer,
    "allocator waits for the reader": _allocator_waits_for_the_reader,
}


def _nothing(session: Any) -> Any:
    return nullcontext()


def _no_wait_for_the_writer(session: Any) -> Any:
    return patch.object(StreamOrder, "_follow", lambda *_: None)


def _no_wait_for_readers(session: Any) -> Any:
    return patch.object(StreamOrder, "writing", lambda *_: None)


def _allocator_not_told(session: Any) -> Any:
    return patch.object(torch.Tensor, "record_stream", lambda *_: None)


@contextmanager
def _waits_on_the_wrong_stream(session: Any) -> Iterator[None]:
    real = gathering.finish_all_gather

    def elsewhere(*arguments: Any) -> None:
        with session._state.order.aside():
            real(*arguments)

    with patch.object(gathering, "finish_all_gather", elsewhere):
        yield


PLANTS = {
    None: _nothing,
    "no wait for the writer": _no_wait_for_the_writer,
    "no wait for readers": _no_wait_for_readers,
    "allocator not told": _allocator_not_told,
    "waits on the wrong stream": _waits_on_the_wrong_stream,
}
