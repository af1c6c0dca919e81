"""Views and buffers: what a later call does to them, what is freed, and what is handed out again."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

import gpu_impl
from tests.gpu_impl.support import Answer, given, ramp, registered

W = 3
WHOLE = ramp(2, 5)


def ptr(session: gpu_impl.Session, id: str = "a") -> int:
    """Where the parameter's buffer lies; no view is kept."""
    return session.gather(id).data_ptr()


def second_whole(session: gpu_impl.Session, rank: int) -> torch.Tensor:
    """Update every shard; the whole that follows."""
    whole = WHOLE + 100
    session.update("a", gpu_impl.shard(whole, rank, W))
    return whole


def valid_again(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """A second gather of a valid parameter is another view of the same buffer."""
    session = registered(context, W, {"a": WHOLE})
    assert not session.available("a")
    first, second = session.gather("a"), session.gather("a")
    assert session.available("a")
    assert first is not second
    assert first.data_ptr() == second.data_ptr()
    assert session.live_bytes == first.untyped_storage().nbytes() == 12 * 4
    return None, ()


def stale_and_held(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """After an update the held view stays what it was, and the new one lies elsewhere."""
    session = registered(context, W, {"a": WHOLE})
    held = session.gather("a")
    whole = second_whole(session, context.rank)
    assert not session.available("a")
    found = session.gather("a")
    assert torch.equal(found, whole)
    assert torch.equal(held, WHOLE)
    assert found.data_ptr() != held.data_ptr()
    assert session.live_bytes == 48
    return None, ()


def stale_and_alone(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """Where nobody holds a view the same buffer is written again, however often, and never through a fresh one."""
    session = registered(context, W, {"a": WHOLE})
    where = ptr(session)
    for _ in range(200):
        session.invalidate("a")
        assert ptr(session) == where
        session.release("a")
        assert ptr(session) == where
    whole = second_whole(session, context.rank)
    assert torch.equal(session.gather("a"), whole)
    assert ptr(session) == where
    return None, ()


def released_and_held(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """A view outlives its parameter's release, and nothing writes to it; its memory goes when it goes."""
    session = registered(context, W, {"a": WHOLE, "b": WHOLE + 50})
    held = session.gather("a")
    session.release("a")
    assert not session.available("a")
    assert session.held_bytes == session.live_bytes == 0
    for id in ("b", "a"):
        assert session.gather(id).data_ptr() != held.data_ptr()
        session.release(id)
    assert torch.equal(held, WHOLE)
    memory = StorageWeakRef(held.untyped_storage())
    del held
    assert memory.expired()
    return None, ()


def released_and_trimmed(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """Released memory is kept for reuse, for any parameter that matches, until trim."""
    wholes = {"a": WHOLE, "b": WHOLE + 50, "wide": WHOLE.double(), "long": ramp(13)}
    session = registered(context, W, wholes)
    where = {id: ptr(session, id) for id in wholes}
    assert session.live_bytes == 48 + 48 + 96 + 60
    for id in wholes:
        session.release(id)
        session.release(id)
    assert (session.live_bytes, session.held_bytes) == (0, 252)
    assert {ptr(session, "a"), ptr(session, "b")} == {where["a"], where["b"]}
    assert (ptr(session, "wide"), ptr(session, "long")) == (where["wide"], where["long"])
    memory = [StorageWeakRef(session.gather(id).untyped_storage()) for id in wholes]
    for id in wholes:
        session.release(id)
    session.trim()
    assert session.held_bytes == session.live_bytes == 0
    assert all(storage.expired() for storage in memory)
    return None, ()


def trimmed_in_use(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """Trim leaves what is gathered alone and gives up what is stale."""
    session = registered(context, W, {"a": WHOLE, "b": WHOLE + 50})
    where = ptr(session)
    ptr(session, "b")
    session.invalidate("b")
    assert session.held_bytes == 48
    session.trim()
    assert (session.held_bytes, session.live_bytes) == (0, 48)
    assert session.available("a")
    assert ptr(session) == where
    assert torch.equal(session.gather("b"), WHOLE + 50)
    return None, ()


def bounded(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """No more than the limit is kept, so a whole model does not stay resident."""
    wholes = {f"p{number}": ramp(8 * W * (number + 1)) for number in range(6)}
    limit = 8 * W * 4 * 7
    session = registered(context, W, wholes, pool_bytes=limit)
    for id, whole in wholes.items():
        assert torch.equal(session.gather(id), whole)
        session.release(id)
        assert session.held_bytes <= limit
    assert session.held_bytes == 8 * W * 4 * 6
    return None, ()


def persistent(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """Release and trim leave a persistent parameter gathered until that ends; an update still makes it stale."""
    session = registered(context, W, {"a": WHOLE, "b": WHOLE})
    session.persist(["a"])
    where = ptr(session)
    session.release("a")
    session.trim()
    assert session.available("a")
    assert ptr(session) == where
    whole = second_whole(session, context.rank)
    assert torch.equal(session.gather("a"), whole)
    assert ptr(session) == where
    session.persist(["a"], keep=False)
    session.release("a")
    assert not session.available("a")
    return None, ()


def tied(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """Tied ids are one parameter: one buffer, updated, stale and released together."""
    session = registered(context, W, {"a": WHOLE})
    session.register([given("t", WHOLE, tied_to="a"), given("u", WHOLE, tied_to="t")])
    assert ptr(session) == ptr(session, "t") == ptr(session, "u")
    session.update("u", session.shard("a") + 1)
    assert not session.available("a")
    assert torch.equal(session.gather("t"), WHOLE + 1)
    assert session.available("u")
    session.release("t")
    assert not session.available("a")
    return None, ()


def wrong_updates(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """An update that does not fit says why and changes nothing."""
    session = registered(context, W, {"a": WHOLE})
    held = session.gather("a")
    for wrong, error, said in (
        (torch.zeros(5), ValueError, r'new shard of "a" has shape \(5,\), expected \(4,\)'),
        (torch.zeros(4, dtype=torch.int32), TypeError, r'new shard of "a" is torch.int32, expected .*torch.float32'),
        ([0.0] * 4, TypeError, r'new shard of "a" is list'),
    ):
        with pytest.raises(error, match=said):
            session.update("a", wrong)  # type: ignore[arg-type]  # on purpose
    assert session.available("a")
    assert torch.equal(held, WHOLE)
    new = torch.ones(4, requires_grad=True)
    session.update("a", new)
    assert not session.shard("a").requires_grad
    assert torch.equal(session.gather("a"), torch.ones(2, 5))
    return None, ()


def in_place(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """A shard may be written to in place; invalidate says so."""
    session = registered(context, W, {"a": WHOLE})
    held = session.gather("a")
    session.shard("a").mul_(2)
    assert torch.equal(session.gather("a"), WHOLE)
    session.invalidate("a")
    assert torch.equal(session.gather("a"), WHOLE * 2)
    assert torch.equal(held, WHOLE)
    return None, ()


def padding_is_nobodys(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """Whatever lies in the padding of shards is never seen."""
    session = registered(context, W, {"a": WHOLE})
    found = gpu_impl.layout(WHOLE.shape, context.rank, W)
    owned = sum(run[2] for run in found["runs"])
    session.shard("a")[owned:] = float("nan")
    assert torch.equal(session.gather("a"), WHOLE)
    return None, ()


CASES = [
    valid_again,
    stale_and_held,
    stale_and_alone,
    released_and_held,
    released_and_trimmed,
    trimmed_in_use,
    bounded,
    persistent,
    tied,
    wrong_updates,
    in_place,
    padding_is_nobodys,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_life(ranks: Any, case: Any) -> None:
    ranks.values(case, None, world_size=W)


def broken(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """A collective that fails raises a clear error, keeps nothing half done, and the next one works."""
    from gpu_impl import seam

    session = registered(context, 1, {"a": WHOLE, "b": WHOLE})
    held = session.gather("b")
    real = seam._gather_directly

    def prefetched() -> object:
        session.prefetch(["a"])
        return session.wait("a")

    class Lost:
        def wait(self) -> None:
            raise RuntimeError("connection closed by peer")

    def at_start(*_args: Any, **_kwargs: Any) -> Any:
        raise RuntimeError("connection closed by peer")

    faults = (at_start, lambda *_args, **_kwargs: Lost())
    for fault, act in product(faults, (lambda: session.gather("a"), prefetched)):
        seam._gather_directly = fault
        try:
            with pytest.raises(
                gpu_impl.CollectiveError, match=r"all-gather of 10 x float32 failed on rank 0 of 1.*peer"
            ):
                act()
        finally:
            seam._gather_directly = real
        assert not session.available("a")
        assert session.live_bytes == 40
        assert torch.equal(held, WHOLE)
        assert torch.equal(session.gather("a"), WHOLE)
        session.release("a")
        session.trim()
    return None, ()


def test_a_failed_collective_loses_nothing(ranks: Any) -> None:
    ranks.values(broken, None, world_size=1)
