"""Reduced gradients: each rank's shard of the sum or mean, padding zero, against sums said with torch alone."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gpu_impl
from tests.gpu_impl.support import Answer, Watch, chunked, ramp, raw, registered, session_of
from tests.gpu_impl.support import given as spec

DRAWS = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])

# Dtypes of gradients, and those in which they may travel: every small integer sum is exact in all of them.
REDUCED = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "complex64", "complex128"]
WIDENED = ["int16", "uint16", "uint32", "float8_e4m3fn", "float8_e5m2"]


def numbers(shape: tuple[int, ...], dtype: torch.dtype, rank: int, seed: int, world_size: int) -> torch.Tensor:
    """Small multiples of the world size that differ between ranks and places; exact in every dtype."""
    places = torch.arange(math.prod(shape)) + 2 * rank + seed
    return (places % 3 * world_size).reshape(shape).to(dtype)


def total(shape: tuple[int, ...], dtype: torch.dtype, seeds: list[int], world_size: int) -> torch.Tensor:
    """The sum over ranks and seeds, in int64 first."""
    parts = [numbers(shape, torch.int64, rank, seed, world_size) for rank in range(world_size) for seed in seeds]
    return torch.stack(parts).sum(0).to(dtype)


def reduced(context: Any, payload: dict[str, Any], _blobs: Any) -> Answer:
    """Accumulate some micro-gradients, reduce with one more, compare; inputs and buffers keep their bytes."""
    world_size, rank = payload["world_size"], context.rank
    session = session_of(context, world_size, alignment=payload["alignment"])
    shapes = {f"p{number}": tuple(shape) for number, shape in enumerate(payload["shapes"])}
    dtype, comm = getattr(torch, payload["dtype"]), payload["comm"] and getattr(torch, payload["comm"])
    session.register([spec(id, torch.zeros(shape), comm_dtype=comm) for id, shape in shapes.items()])
    for _ in range(2):  # nothing is left over from the first round
        for seed in range(payload["rounds"]):
            session.accumulate({id: numbers(shape, dtype, rank, seed, world_size) for id, shape in shapes.items()})
        last = payload["rounds"]
        grads = {id: numbers(shape, dtype, rank, last, world_size) for id, shape in shapes.items()}
        grads = {id: grad.t().contiguous().t() if grad.dim() == 2 else grad for id, grad in grads.items()}
        before = {id: raw(grad) for id, grad in grads.items()}
        found = session.reduce(grads, payload["reduction"])
        assert before == {id: raw(grad) for id, grad in grads.items()}
        squares = 0.0
        for id, shape in shapes.items():
            whole = total(shape, torch.int64, list(range(last + 1)), world_size)
            whole = whole // world_size if payload["reduction"] == "mean" else whole
            squares += whole.to(dtype).to(torch.complex128).abs().square().sum().item()
            assert found[id].dtype == dtype
            assert raw(found[id]) == raw(chunked(whole.to(dtype), rank, world_size, payload["alignment"]))
        assert session.norm() == math.sqrt(squares)
    assert session.live_bytes == 0
    return None, ()


@DRAWS
@given(
    world_size=st.integers(1, 4),
    alignment=st.sampled_from((1, 3, 4)),
    shapes=st.lists(st.lists(st.integers(0, 6), max_size=3), min_size=1, max_size=3),
    dtype=st.sampled_from(REDUCED + WIDENED),
    rounds=st.integers(0, 2),
    reduction=st.sampled_from(("sum", "mean")),
)
def test_shards_of_the_sum_and_the_mean(
    ranks: Any, world_size: int, alignment: int, shapes: list[Any], dtype: str, rounds: int, reduction: str
) -> None:
    payload = {
        "world_size": world_size,
        "alignment": alignment,
        "shapes": shapes,
        "dtype": dtype,
        "comm": None,
        "rounds": rounds,
        "reduction": reduction,
    }
    ranks.values(reduced, payload, world_size=world_size)


@pytest.mark.parametrize(
    ("dtype", "comm"),
    [(dtype, None) for dtype in REDUCED + WIDENED]
    + [("float32", "bfloat16"), ("bfloat16", "float32"), ("float8_e5m2", "float16"), ("float16", "float8_e5m2")]
    + [("int8", "int64"), ("int32", "float64")],
)
@pytest.mark.parametrize("world_size", [1, 3])
def test_every_dtype_and_what_it_travels_in(ranks: Any, dtype: str, comm: str | None, world_size: int) -> None:
    payload = {"alignment": 1, "shapes": [[4], [2, 5], [1], [0]], "rounds": 0, "reduction": "sum"}
    ranks.values(reduced, {**payload, "world_size": world_size, "dtype": dtype, "comm": comm}, world_size=world_size)


def travels_in(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """What is summed is what `comm_dtype` can hold: 257 is 256 in bfloat16."""
    session = session_of(context, 2)
    session.register([spec("a", ramp(2), comm_dtype=torch.bfloat16), spec("b", ramp(2))])
    grads = {id: torch.full((2,), 257.0) for id in "ab"}
    found = session.reduce(grads, "sum")
    assert (found["a"].tolist(), found["b"].tolist()) == ([512.0], [514.0])
    return None, ()


def named_and_accumulated(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """A reduce takes the parameters it names; without names, all that have something accumulated."""
    session = registered(context, 2, {"a": ramp(3), "b": ramp(2, 2), "c": ramp(1)})
    ones = {"a": torch.ones(3), "b": torch.ones(2, 2)}
    session.accumulate(ones)
    assert set(session.reduce({"a": torch.ones(3)}, "sum")) == {"a"}
    assert session.norm() == math.sqrt(3 * 16)
    found = session.reduce({}, "mean")
    assert set(found) == {"b"}
    assert found["b"].tolist() == [1.0, 1.0]
    assert session.norm() == 2.0
    assert session.reduce({}, "sum") == {}
    assert session.norm() == 0.0
    return None, ()


def tied_once(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """Gradients of tied ids are one gradient, reduced by one collective and counted once in the norm."""
    session = registered(context, 2, {"a": ramp(3)})
    session.register([spec("t", ramp(3), tied_to="a")])
    session.accumulate({"t": torch.ones(3)})
    with Watch() as watch:
        found = session.reduce({"a": torch.ones(3), "t": torch.ones(3)}, "sum")
    assert watch.collectives == ["c10d::_reduce_scatter_base_"]
    assert found["a"] is found["t"]
    assert found["a"].tolist() == ([6.0, 6.0] if context.rank == 0 else [6.0, 0.0])
    assert session.norm() == math.sqrt(3 * 36)
    assert set(session.reduce({"t": torch.ones(3)}, "sum")) == {"a", "t"}
    return None, ()


def same_order(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """Ranks may name gradients in different orders; they communicate in the order of registration."""
    session = registered(context, 2, {"a": ramp(2), "b": ramp(6)})
    grads = {"a": torch.ones(2), "b": torch.full((6,), 2.0)}
    if context.rank:
        grads = dict(reversed(grads.items()))
    found = session.reduce(grads, "sum")
    assert (found["a"].tolist(), found["b"].tolist()) == ([2.0], [4.0] * 3)
    return None, ()


def results_stay(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """What a reduce returned is not changed by a later reduce, clip or step."""
    session = registered(context, 2, {"a": ramp(3)})
    first = session.reduce({"a": torch.full((3,), 4.0)}, "sum")["a"]
    kept = first.clone()
    session.clip(1.0)
    session.step(0.5)
    session.reduce({"a": torch.ones(3)}, "sum")
    assert torch.equal(first, kept)
    return None, ()


# What is wrong, the error, its words.
WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"z": torch.ones(3)}, gpu_impl.UnknownParameterError, "no parameter 'z'"),
    ({"a": torch.ones(4)}, ValueError, r'gradient of "a" has shape \(4,\), expected \(3,\)'),
    ({"a": [1.0] * 3}, TypeError, 'gradient of "a" is list'),
    ({"a": torch.ones(3, dtype=torch.bool)}, TypeError, "gradients of torch.bool cannot be reduced"),
    ({"a": torch.ones(3, dtype=torch.float64)}, TypeError, "float64, expected torch.float32 as accumulated before"),
    ({"frozen": torch.ones(3)}, ValueError, '"frozen" is frozen'),
    ({"half": torch.ones(3, dtype=torch.complex64)}, TypeError, "can be sent as torch.float16"),
]


def wrong_gradients(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """Nothing is added where one gradient does not fit."""
    session = registered(context, 2, {"a": ramp(3)})
    session.register(
        [spec("frozen", ramp(3), requires_grad=False, grad=None), spec("half", ramp(3), comm_dtype=torch.float16)]
    )
    session.accumulate({"a": torch.ones(3)})
    for grads, error, said in WRONG:
        for call in (session.accumulate, lambda grads: session.reduce(grads, "sum")):
            with pytest.raises(error, match=said):
                call({"a": torch.ones(3), **grads})
    with pytest.raises(ValueError, match="reduction is 'max', expected 'sum' or 'mean'"):
        session.reduce({"a": torch.ones(3)}, "max")
    assert sum(session.reduce({}, "sum")["a"].tolist()) == (4.0 if context.rank == 0 else 2.0)
    return None, ()


def counted(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """Counters speak of the last reduction alone, padding and the dtype that is sent included."""
    session = registered(context, 2, {"a": ramp(3), "b": ramp(4)})
    session.register([spec("half", ramp(1), comm_dtype=torch.bfloat16)])
    assert session.counters == {}
    grads = {"a": torch.ones(3), "b": torch.ones(4)}
    for _ in range(2):
        session.reduce(grads, "sum")
        assert session.counters == {"parameters": 2, "elements": 8, "bytes": 32}
    session.accumulate({"a": torch.ones(3)})
    session.reduce({"half": torch.ones(1)}, "mean")
    assert session.counters == {"parameters": 1, "elements": 2, "bytes": 4}
    session.counters["bytes"] = 0
    assert session.counters["bytes"] == 4
    return None, ()


def lost_on_the_way(context: Any, _payload: Any, _blobs: Any) -> Answer:
    """Where the collective fails, the gradients count as accumulated, and what was reduced before stays."""
    from gpu_impl import seam

    session = registered(context, 2, {"a": ramp(2), "b": ramp(2)})
    session.reduce({"a": torch.full((2,), 3.0)}, "sum")
    real, calls = seam._reduce_scatter, []

    def second_fails(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:
            raise RuntimeError("connection closed by peer")
        return real(*args, **kwargs)

    seam._reduce_scatter = second_fails
    try:
        with pytest.raises(gpu_impl.CollectiveError, match="reduce-scatter of 2 x float32 failed"):
            session.reduce({"a": torch.ones(2), "b": torch.ones(2)}, "sum")
    finally:
        seam._reduce_scatter = real
    assert session.norm() == math.sqrt(2 * 36)
    found = session.reduce({}, "sum")
    assert (found["a"].tolist(), found["b"].tolist()) == ([2.0], [2.0])
    return None, ()


CASES = [
    travels_in,
    named_and_accumulated,
    tied_once,
    same_order,
    results_stay,
    wrong_gradients,
    counted,
    lost_on_the_way,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_reduce(ranks: Any, case: Any) -> None:
    ranks.values(case, None, world_size=2)
