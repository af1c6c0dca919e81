"""Prefetch: one collective for several parameters, complete when waited for, and never written to on the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import gpu_impl
from tests.gpu_impl.support import MOVED, Answer, Watch, bits, ramp, raw, registered

W = 2
LATE = 0.05
WHOLES = {
    "a": ramp(100003),
    "b": ramp(3, start=7),
    "c": bits((2, 5), torch.float8_e4m3fn),
    "e": ramp(0, 4),
    "s": ramp(),
}


def one_collective(context: Any, ids: list[str], _blobs: Any) -> Answer:
    """Mixed dtypes, empty and scalar parameters, asked for in any order, are one coalesced collective."""
    session = registered(context, W, WHOLES)
    with Watch() as watch:
        handle = session.prefetch(ids if context.rank else ids[::-1])
    assert not any(session.available(id) for id in ids)
    found = handle.wait()
    assert {id: raw(whole) for id, whole in found.items()} == {id: raw(WHOLES[id]) for id in ids}
    assert all(session.available(id) for id in ids)
    with Watch() as after:
        once_more, again = {id: session.wait(id) for id in ids}, handle.wait()
    assert not after.collectives
    for id, whole in found.items():
        assert whole.data_ptr() == once_more[id].data_ptr() == again[id].data_ptr()
    return watch.collectives, ()


@pytest.mark.parametrize(
    ("ids", "collective"),
    [
        (["a"], ["c10d::_allgather_base_"]),
        (["a", "a"], ["c10d::_allgather_base_"]),
        (["a", "b"], ["c10d::allgather_into_tensor_coalesced_"]),
        (["s", "e", "c", "b", "a"], ["c10d::allgather_into_tensor_coalesced_"]),
        (["e"], []),
        ([], []),
    ],
)
def test_several_are_one_collective(ranks: Any, ids: list[str], collective: list[str]) -> None:
    assert ranks.values(one_collective, ids, world_size=W) == [collective] * W


def some_there_already(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """What is valid or under way is not asked for again."""
    session = registered(context, W, WHOLES)
    session.gather("b")
    session.prefetch(["a"])
    with Watch() as watch:
        session.prefetch(["a", "b", "s"])
    assert watch.collectives == ["c10d::_allgather_base_"]
    for id, whole in WHOLES.items():
        assert raw(session.gather(id)) == raw(whole)
    return None, ()


def a_slow_peer(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """Prefetch returns before a peer has come; the parameter is available only once it has been waited for."""
    session = registered(context, W, WHOLES)
    if context.rank == 0:
        time.sleep(LATE)
    session.prefetch(["a", "b"])
    assert not session.available("a")
    assert torch.equal(session.wait("b"), WHOLES["b"])
    assert session.available("a")
    assert torch.equal(session.gather("a"), WHOLES["a"])
    return None, ()


def bits_survive(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """Coalescing changes no bit of any dtype, neither alone nor mixed."""
    wholes = {f"{name}{copy}": bits((7, 3), getattr(torch, name), copy) for name in MOVED for copy in (0, 1)}
    session = registered(context, W, wholes)
    for name in MOVED:
        session.prefetch([f"{name}0", f"{name}1"])
    for id, whole in wholes.items():
        assert raw(session.wait(id)) == raw(whole)
        session.release(id)
    session.prefetch(wholes)
    for id, whole in wholes.items():
        assert raw(session.wait(id)) == raw(whole)
    return None, ()


CASES = [some_there_already, a_slow_peer, bits_survive]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_prefetch(ranks: Any, case: Any) -> None:
    ranks.values(case, None, world_size=W)


def updated(session: gpu_impl.Session) -> torch.Tensor:
    session.update("a", torch.full_like(session.shard("a"), 9.0))
    return torch.full((100003,), 9.0)


def invalidated(session: gpu_impl.Session) -> torch.Tensor:
    session.invalidate("a")
    return WHOLES["a"]


def released(session: gpu_impl.Session) -> torch.Tensor:
    session.release("a")
    return WHOLES["a"]


def trimmed(session: gpu_impl.Session) -> torch.Tensor:
    session.trim()
    return WHOLES["a"]


# What is done to "a" while it is under way, and whether the gather after that communicates.
MEANWHILE: dict[str, tuple[Callable[[gpu_impl.Session], torch.Tensor], bool]] = {
    "update": (updated, True),
    "invalidate": (invalidated, True),
    "release": (released, True),
    "trim": (trimmed, False),
}


def meanwhile(context: Any, name: str, _blobs: Any) -> Answer:
    """What another call does to a parameter under way waits for it; what was under way with it arrives whole."""
    act, communicates = MEANWHILE[name]
    session = registered(context, W, WHOLES)
    for _ in range(20):
        if context.rank == 0:
            time.sleep(LATE / 20)
        session.prefetch(["a", "b"])
        expected = act(session)
        with Watch() as watch:
            found = session.gather("a")
        assert bool(watch.collectives) == communicates
        assert torch.equal(found, expected)
        assert torch.equal(session.wait("b"), WHOLES["b"])
        del found
        session.update("a", gpu_impl.shard(WHOLES["a"], context.rank, W))
        session.release("a")
        session.release("b")
    return None, ()


@pytest.mark.parametrize("name", MEANWHILE)
def test_calls_meanwhile(ranks: Any, name: str) -> None:
    ranks.values(meanwhile, name, world_size=W)


def a_stale_view_held(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """A prefetch of a stale parameter does not write where somebody still reads."""
    session = registered(context, W, WHOLES)
    held = session.gather("a")
    updated(session)
    session.prefetch(["a", "b"])
    assert torch.equal(held, WHOLES["a"])
    assert session.wait("a").data_ptr() != held.data_ptr()
    assert torch.equal(held, WHOLES["a"])
    return None, ()


def test_a_held_view_is_left_alone(ranks: Any) -> None:
    ranks.values(a_stale_view_held, None, world_size=W)


def lost(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """Where the work fails, everything it carried is to be gathered again, and nothing it filled is used."""
    from gpu_impl import gathering

    session = registered(context, 1, WHOLES)
    real = gathering.finish_all_gather

    def fail(*_args: Any) -> None:
        raise gpu_impl.CollectiveError("peer gone")

    session.prefetch(["a", "b"])
    gathering.finish_all_gather = fail
    try:
        with pytest.raises(gpu_impl.CollectiveError, match="peer gone"):
            session.wait("b")
    finally:
        gathering.finish_all_gather = real
    assert session.live_bytes == 0
    for id in ("a", "b"):
        assert not session.available(id)
        assert torch.equal(session.gather(id), WHOLES[id])
    return None, ()


def test_a_lost_flight(ranks: Any) -> None:
    ranks.values(lost, None, world_size=1)
