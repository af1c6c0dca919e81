"""What a gather costs: one collective straight from the shard into the buffer, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.gpu_impl.support import Answer, Watch, bits, registered

# Views cost nothing; whatever else reaches the dispatcher in a warm gather is a fault.
VIEWS = {"as_strided", "view", "slice"}
DTYPES = ["float32", "bfloat16", "float8_e5m2", "complex64", "bool"]


def warm(context: Any, payload: dict[str, Any], _blobs: Any) -> Answer:
    """The names seen in a warm gather, and in a warm prefetch of two."""
    world_size = payload["world_size"]
    wholes = {id: bits((5, 3), getattr(torch, payload["dtype"]), seed) for seed, id in enumerate("ab")}
    session = registered(context, world_size, wholes)
    for id in wholes:
        session.gather(id)
    for id in wholes:
        if payload["released"]:
            session.release(id)
        else:
            session.invalidate(id)
    with Watch() as gathered:
        view = session.gather("a")
    where, shard = view.data_ptr(), session.shard("a")
    del view
    session.invalidate("a")
    session.invalidate("b")
    with Watch() as prefetched:
        session.prefetch(["a", "b"])
        found = session.wait("a")
    assert found.data_ptr() == where
    assert shard.data_ptr() == session.shard("a").data_ptr()
    return {"gather": gathered.seen, "prefetch": prefetched.seen}, ()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("released", [True, False])
@pytest.mark.parametrize("world_size", [1, 2])
def test_a_warm_gather_is_one_collective_and_views(ranks: Any, dtype: str, released: bool, world_size: int) -> None:
    payload = {"dtype": dtype, "released": released, "world_size": world_size}
    for seen in ranks.values(warm, payload, world_size=world_size):
        for kind, collective in (
            ("gather", "c10d::_allgather_base_"),
            ("prefetch", "c10d::allgather_into_tensor_coalesced_"),
        ):
            moved = [name for name in seen[kind] if name not in VIEWS | {"view_as_real"}]
            assert moved == [collective]


def operands(context: Any, world_size: int, _blobs: Any) -> Answer:
    """What the collective is given: the shard's own memory, and the memory that is returned."""
    from gpu_impl import seam

    calls = []
    session = registered(context, world_size, {"a": bits((5,), torch.float32)})
    real = seam._gather_directly

    def spy(group: Any, receive: torch.Tensor, send: torch.Tensor, options: Any) -> Any:
        calls.append((receive, send))
        return real(group, receive, send, options)

    seam._gather_directly = spy
    try:
        found = session.gather("a")
    finally:
        seam._gather_directly = real
    ((receive, send),) = calls
    assert send.is_contiguous()
    assert send.data_ptr() == session.shard("a").data_ptr()
    assert receive.data_ptr() == found.data_ptr()
    assert receive.numel() == world_size * send.numel()
    return None, ()


def test_it_goes_from_the_shard_to_the_result(ranks: Any) -> None:
    ranks.values(operands, 3, world_size=3)
