"""What a gather returns, bit for bit, for any shape, dtype, world size and memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gpu_impl
from tests.gpu_impl.support import MOVED, Answer, bits, listed, ramp, raw, registered, session_of
from tests.gpu_impl.support import given as spec

DRAWS = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
SHAPES = st.lists(st.integers(0, 7), max_size=3)
DTYPES = st.sampled_from(MOVED)


def round_trip(context: Any, payload: dict[str, Any], _blobs: Any) -> Answer:
    """Register, gather one by one and prefetched; compare with the whole and with a gather by list."""
    world_size, alignment = payload["world_size"], payload["alignment"]
    session = session_of(context, world_size, alignment=alignment)
    wholes, specs = {}, []
    for number, (shape, dtype, offset, transposed) in enumerate(payload["parameters"]):
        flat = bits((offset + torch.Size(shape).numel(),), getattr(torch, dtype), number)
        whole = flat[offset:].reshape(shape)
        whole = whole.permute(tuple(reversed(range(whole.dim())))) if transposed else whole
        id = f"p{number}"
        wholes[id] = whole
        specs.append(spec(id, whole))
    session.register(specs)
    group = context.group(tuple(range(world_size)))
    before = {id: raw(session.shard(id)) for id in wholes}
    for start in (lambda: None, lambda: session.prefetch(wholes)):
        start()
        for id, whole in wholes.items():
            found = session.gather(id)
            assert (found.shape, found.dtype) == (whole.shape, whole.dtype)
            assert raw(found) == raw(whole)
            assert raw(found) == raw(listed(session.shard(id), whole.shape, group))
            padded = gpu_impl.layout(whole.shape, context.rank, world_size, alignment)["padded_numel"]
            assert found.untyped_storage().nbytes() == padded * whole.element_size()
            assert found.is_contiguous()
            session.invalidate(id)
    assert before == {id: raw(session.shard(id)) for id in wholes}
    return None, ()


@DRAWS
@given(
    world_size=st.integers(1, 4),
    alignment=st.sampled_from(gpu_impl.alignments),
    parameters=st.lists(st.tuples(SHAPES, DTYPES, st.integers(0, 3), st.booleans()), min_size=1, max_size=5),
)
def test_every_parameter_comes_back_bit_for_bit(
    ranks: Any, world_size: int, alignment: int, parameters: list[Any]
) -> None:
    payload = {"world_size": world_size, "alignment": alignment, "parameters": parameters}
    ranks.values(round_trip, payload, world_size=world_size)


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_every_dtype_alone_and_beside_the_others(ranks: Any, world_size: int) -> None:
    parameters = [([3, 5], dtype, 1, False) for dtype in MOVED]
    payload = {"world_size": world_size, "alignment": 1, "parameters": parameters}
    ranks.values(round_trip, payload, world_size=world_size)


SMALL = [[], [0], [1], [1, 0, 2], [2], [3], [4], [5], [2, 2], [13], [127], [128], [129]]


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_small_and_empty_shapes(ranks: Any, world_size: int) -> None:
    parameters = [(shape, "int64", 0, False) for shape in SMALL]
    payload = {"world_size": world_size, "alignment": 1, "parameters": parameters}
    ranks.values(round_trip, payload, world_size=world_size)


def under_modes(context: Any, world_size: int, _blobs: Any) -> Answer:
    """Registered, gathered, updated and released under one mode each; memory is shared all the same."""
    modes = (torch.no_grad, torch.enable_grad, torch.inference_mode)
    whole = ramp(5)
    for registering in modes:
        for gathering in modes:
            with registering():
                session = registered(context, world_size, {"a": whole})
            with gathering():
                found = session.gather("a")
                again = session.gather("a")
            assert not found.requires_grad
            assert not found.is_inference()
            assert found.data_ptr() == again.data_ptr() == found.untyped_storage().data_ptr()
            del found, again
            session.update("a", session.shard("a") + 1)
            with gathering():
                assert torch.equal(session.gather("a"), listed(session.shard("a"), (5,), context.group((0, 1))))
            session.release("a")
    return None, ()


def test_gradient_modes_do_not_matter(ranks: Any) -> None:
    ranks.values(under_modes, 2, world_size=2)


def in_a_graph(context: Any, world_size: int, _blobs: Any) -> Answer:
    """What autograd saved of a view counts as held, so backward sees the values of its own forward."""
    session = registered(context, world_size, {"a": ramp(3)})
    factor = torch.ones(3, requires_grad=True)
    product = (session.gather("a") * factor).sum()
    session.update("a", torch.full_like(session.shard("a"), 7.0))
    assert session.gather("a").tolist() == [7.0] * 3
    (grad,) = torch.autograd.grad(product, factor)
    assert torch.equal(grad, ramp(3))
    return None, ()


def test_backward_sees_what_forward_saw(ranks: Any) -> None:
    ranks.values(in_a_graph, 2, world_size=2)


def subgroup(context: Any, members: list[int], _blobs: Any) -> Answer:
    """A group that does not start at the pool's first rank."""
    if context.rank not in members:
        return None, ()
    session = gpu_impl.Session(context.group(tuple(members)), torch.device("cpu"))
    session.register([spec("a", ramp(5))])
    assert torch.equal(session.gather("a"), ramp(5))
    return session.shard("a").tolist(), ()


def test_groups_need_not_start_at_rank_zero(ranks: Any) -> None:
    assert ranks.values(subgroup, [1, 3], world_size=4) == [None, [0.0, 1.0, 2.0], None, [3.0, 4.0, 0.0]]
