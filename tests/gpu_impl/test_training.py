"""The small model and the step: the same on any number of ranks as the formula says, exactly."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tests.gpu_impl.support import Answer, chunked, given, ramp, registered, session_of

SHAPES = {"a": (5,), "b": (2, 3), "scalar": (), "empty": (0,), "wide": (4,)}
RATE = 2.0**-3


def starting() -> dict[str, torch.Tensor]:
    wholes = {id: ramp(*shape, start=number) for number, (id, shape) in enumerate(SHAPES.items())}
    return wholes | {"wide": wholes["wide"].double()}


def formula(weights: dict[str, torch.Tensor], value: int, world_size: int) -> tuple[float, dict[str, torch.Tensor]]:
    """Loss and gradients as documented, in float64; "a" is used twice, under its tied id too, "frozen" once."""
    loss, grads = 0.0, {id: torch.zeros_like(w, dtype=torch.float64) for id, w in weights.items()}
    for id in [*weights, "a"]:
        w = weights[id].double()
        for rank in range(world_size):
            i = torch.arange(w.numel(), dtype=torch.float64).reshape(w.shape)
            x = (i + 3 * rank + 5 * value) % 7 - 3
            loss += (w * x + w * w / 2).sum().item()
            grads[id] += w + x
    return loss, grads


def train(context: Any, world_size: int, _blobs: Any) -> Answer:
    """Three steps, each compared with the formula."""
    session, weights = session_of(context, world_size), starting() | {"frozen": ramp(3)}
    session.register(
        [given(id, whole, requires_grad=id != "frozen") for id, whole in weights.items()]
        + [given("tied", weights["a"], tied_to="a"), given("counts", torch.arange(3))]
    )
    for value in range(3):
        loss, grads = formula(weights, value, world_size)
        assert session.forward(value) == loss
        reduced = session.backward()
        del grads["frozen"]
        assert reduced.keys() == grads.keys()
        for id, grad in grads.items():
            own = chunked(grad.to(weights[id].dtype), context.rank, world_size)
            assert torch.equal(reduced[id], own)
        assert session.norm() == math.sqrt(sum(grad.square().sum().item() for grad in grads.values()))
        session.step(RATE)
        for id, grad in grads.items():
            weights[id] = (weights[id] - RATE * grad).to(weights[id].dtype)
            assert not session.available(id)
            assert torch.equal(session.gather(id), weights[id])
        assert torch.equal(session.gather("frozen"), ramp(3))
    assert session.scalars["steps"] == 3
    return None, ()


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_training_is_what_the_formula_says(ranks: Any, world_size: int) -> None:
    ranks.values(train, world_size, world_size=world_size)


def clipped(context: Any, _world_size: int, _blobs: Any) -> Answer:
    """Above the bound everything is scaled by bound / norm, below it nothing is."""
    session = registered(context, 2, {"a": ramp(2), "h": ramp(2).to(torch.float8_e5m2)})
    session.reduce({"a": torch.tensor([1.5, 2.0]), "h": torch.tensor([2.0, 2.0]).to(torch.float8_e5m2)}, "sum")
    before = math.sqrt(9 + 16 + 16 + 16)
    assert session.clip(before) == before
    assert session.norm() == before
    assert session.clip(before / 2) == before
    assert session.norm() == before / 2
    session.step(1.0)
    assert session.gather("a").tolist() == [-1.5, -1.0]
    assert session.gather("h").tolist() == [-2.0, -1.0]
    session.reduce({"a": torch.full((2,), float("nan"))}, "sum")
    assert math.isnan(session.clip(1.0))
    session.reduce({"a": torch.ones(2)}, "sum")
    assert session.clip(0.0) == math.sqrt(8)
    assert session.norm() == 0.0
    return None, ()


def narrow(context: Any, _world_size: int, _blobs: Any) -> Answer:
    """A bfloat16 parameter is stepped in float32 and rounded once; padding is not touched."""
    session = registered(context, 2, {"a": torch.ones(3, dtype=torch.bfloat16)})
    if context.rank == 1:
        session.shard("a")[1] = float("nan")
    session.reduce({"a": torch.full((3,), 3.0)}, "sum")
    session.step(1 / 3)
    shard = session.shard("a")
    expected = (torch.ones(()) - 1 / 3 * torch.tensor(6.0)).bfloat16()
    assert shard[0] == expected
    assert context.rank == 0 or shard[1].isnan()
    return None, ()


def held_over_a_step(context: Any, _world_size: int, _blobs: Any) -> Answer:
    """A backward after an update still sees the weights of its forward."""
    session = registered(context, 2, {"a": ramp(3)})
    session.forward(0)
    session.update("a", torch.full_like(session.shard("a"), 50.0))
    assert session.gather("a").tolist() == [50.0] * 3
    session.backward()
    _, grads = formula({"a": ramp(3)}, 0, 2)
    assert session.norm() == (grads["a"] / 2).norm().item()
    with pytest.raises(RuntimeError, match="backward without a forward"):
        session.backward()
    return None, ()


def accumulated(context: Any, _world_size: int, _blobs: Any) -> Answer:
    """What was accumulated is part of the next backward's gradient."""
    session = registered(context, 2, {"a": torch.zeros(1)})
    session.accumulate({"a": torch.full((1,), 10.0)})
    session.forward(0)
    session.backward()
    assert session.norm() == abs(20 + (0 - 3) + (3 - 3))
    return None, ()


def wrong(context: Any, _world_size: int, _blobs: Any) -> Answer:
    """Steps and clips that cannot be."""
    session = registered(context, 2, {"a": ramp(3), "i": torch.arange(3)})
    with pytest.raises(RuntimeError, match="step without reduced gradients"):
        session.step(1.0)
    session.reduce({"a": torch.ones(3), "i": torch.ones(3, dtype=torch.int64)}, "sum")
    for call in (session.step, session.clip):
        with pytest.raises(TypeError, match=r'(step|clip) of "i": torch.int64, expected a float'):
            call(1.0)
    assert torch.equal(session.gather("a"), ramp(3))
    for bound in (-1.0, float("nan")):
        with pytest.raises(ValueError, match="expected at least 0"):
            session.clip(bound)
    return None, ()


def nothing_to_train(context: Any, _world_size: int, _blobs: Any) -> Answer:
    """Integers only: the loss is zero and there is no gradient."""
    session = registered(context, 2, {"i": torch.arange(3)})
    assert session.forward(1) == 0.0
    assert session.backward() == {}
    assert session.norm() == 0.0
    return None, ()


def other_modes(context: Any, _world_size: int, _blobs: Any) -> Answer:
    """Modes of the caller do not matter."""
    losses = []
    for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        with mode():
            session = registered(context, 2, {"a": ramp(3)})
            losses.append(session.forward(1))
            session.backward()
            session.step(RATE)
        losses.append(float(session.gather("a").sum()))
    assert losses == losses[:2] * 3
    return None, ()


CASES = [clipped, narrow, held_over_a_step, accumulated, wrong, nothing_to_train, other_modes]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_training(ranks: Any, case: Any) -> None:
    ranks.values(case, 2, world_size=2)


def test_the_steps_survive_a_checkpoint(ranks: Any, tmp_path: Any) -> None:
    ranks.values(save_trained, str(tmp_path / "saved"), world_size=3)
    ranks.values(load_trained, str(tmp_path / "saved"), world_size=2)


def save_trained(context: Any, path: str, _blobs: Any) -> Answer:
    session = registered(context, 3, {"a": ramp(4)})
    session.reduce({"a": torch.ones(4)}, "sum")
    session.step(1.0)
    session.save(path)
    return None, ()


def load_trained(context: Any, path: str, _blobs: Any) -> Answer:
    session = registered(context, 2, {"a": torch.zeros(4)})
    session.load(path)
    assert session.scalars["steps"] == 1
    assert torch.equal(session.gather("a"), ramp(4) - 3)
    with pytest.raises(RuntimeError, match="step without reduced gradients"):
        session.step(1.0)
    return None, ()
