"""ZeroRedundancyOptimizer gives whole parameters to ranks: what it computes is what one optimizer computes, to the bit.

It cuts no parameter, so that there is no layout to judge and no adapter. Gradients are the same on every rank, as after
DistributedDataParallel.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from shardproof.pytest_plugin import Ranks
from shardproof.ranks import Context
from tests.adapters.plain import GROUPS

# Gaps between elements: findings/zero_redundancy_gapped_parameter.py
SHAPES: list[list[int]] = [[], [0], [1], [2], [3], [5, 3], [2, 0, 3], [4, 4], [1, 1, 7], [67]]
OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.5, "momentum": 0.5}),
    ("Adam", {"lr": 0.01}),
    ("AdamW", {"lr": 0.01, "amsgrad": True}),
]


def trained(context: Context, payload: Mapping[str, Any], blobs: tuple[bytearray, ...]) -> tuple[object, list[bytes]]:
    """Steps, a consolidated state loaded into a new optimizer, and more steps; beside one optimizer that has it all.

    What each of the two ended with, as weights and state, where this rank can know it.
    """
    import torch
    from torch import nn
    from torch.distributed.optim import ZeroRedundancyOptimizer

    ranks, view = payload["ranks"], payload["view"]
    if context.rank not in ranks:
        return None, []
    name, options = payload["optimizer"]
    kind = getattr(torch.optim, name)
    torch.manual_seed(payload["seed"])
    whole = [nn.Parameter(torch.randn(shape)) for shape in payload["shapes"]]
    shared = [nn.Parameter(parameter.detach().clone()) for parameter in whole]
    gradients = [[torch.randn(shape) for shape in payload["shapes"]] for _ in range(4)]
    group = context.group(ranks)

    def sharded() -> ZeroRedundancyOptimizer:
        return ZeroRedundancyOptimizer(shared, kind, process_group=group, parameters_as_bucket_view=view, **options)

    def steps(one: Any, parameters: list[nn.Parameter], rounds: list[list[torch.Tensor]]) -> None:
        for grads in rounds:
            for parameter, grad in zip(parameters, grads, strict=True):
                parameter.grad = grad.clone()
            one.step()

    plain, zero = kind(whole, **options), sharded()
    steps(plain, whole, gradients[:2])
    steps(zero, shared, gradients[:2])
    states = []
    for to in range(len(ranks)):
        zero.consolidate_state_dict(to)
        states.append(zero.state_dict() if ranks.index(context.rank) == to else None)
    state = next(one for one in states if one is not None)
    told = {"state": _plain(state["state"]), "state of one": _plain(plain.state_dict()["state"])}
    told["groups"] = [group["params"] for group in state["param_groups"]]
    zero = sharded()
    zero.load_state_dict(state)
    steps(plain, whole, gradients[2:])
    steps(zero, shared, gradients[2:])
    told["weights"], told["weights of one"] = ([_bits(p.detach()) for p in some] for some in (shared, whole))
    return told, []


def _plain(state: Mapping[int, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    return {str(at): {name: _bits(value) for name, value in of_one.items()} for at, of_one in state.items()}


def _bits(value: Any) -> str:
    """A tensor's shape, dtype and bytes; anything else as it is printed."""
    import torch

    if not isinstance(value, torch.Tensor):
        return repr(value)
    raw = value.detach().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()
    return f"{list(value.shape)} {value.dtype} {raw.hex()}"


def drawn(seed: int) -> list[list[int]]:
    """One to seven shapes: fewer than ranks, empty ones and scalars among them."""
    one = random.Random(seed)
    return [one.choice(SHAPES) for _ in range(one.choice([1, 1, 2, 3, 5, 7]))]


@pytest.mark.parametrize("view", [False, True])
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda one: one[0])
@pytest.mark.parametrize("ranks", GROUPS, ids=str)
def test_it_computes_what_one_optimizer_computes(
    five_ranks: Ranks, ranks: tuple[int, ...], optimizer: tuple[str, dict[str, Any]], view: bool
) -> None:
    for seed in range(6):
        payload = {"ranks": ranks, "optimizer": optimizer, "view": view, "seed": seed, "shapes": drawn(seed)}
        values = five_ranks.values(trained, payload, world_size=5, deadline=120)
        for told in (values[rank] for rank in ranks):
            assert told["weights"] == told["weights of one"], payload
            assert told["state"] == told["state of one"], payload
            assert told["groups"] == [list(range(len(payload["shapes"])))], payload
