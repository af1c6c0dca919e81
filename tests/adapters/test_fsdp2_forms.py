"""FSDP2 where the protocol has no word: norms of clipping, dtypes of computation, states of a module, tied modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shardproof.pytest_plugin import Ranks

_ENTRIES = str(Path(__file__).with_name("fsdp2_entries.py"))
GROUPS = [(0,), (3, 4), (1, 2, 3), (0, 1, 2, 3)]


def told(ranks: Ranks, entry: str, group: tuple[int, ...], **more: Any) -> Any:
    """What every rank of the group was told, which is the same."""
    values = ranks.values(f"{_ENTRIES}:{entry}", {"ranks": group, **more}, world_size=5, deadline=120)
    assert all(values[rank] == values[group[0]] for rank in group)
    return values[group[0]]


def gradient(size: int) -> list[float]:
    """Of the weight of 5 x 2: every row is the sum of the ranks' inputs."""
    return [float(sum(rank + 1 + column for rank in range(size))) for column in range(2)] * 5


@pytest.mark.parametrize("norm", [1, 2, 3, "inf"])
@pytest.mark.parametrize("group", [(0,), (3, 4), (1, 2, 3)], ids=str)
def test_clipped_by_every_norm(five_ranks: Ranks, group: tuple[int, ...], norm: int | str) -> None:
    """As unsharded: the norm is that of the whole gradient, which is scaled by bound / (norm + 1e-6) in float32."""
    import torch

    whole = torch.nn.Parameter(torch.zeros(10))
    whole.grad = torch.tensor(gradient(len(group)))
    before = torch.nn.utils.clip_grad_norm_([whole], 2.0, norm_type=float(norm)).item()
    seen, scaled = told(five_ranks, "clipped", group, norm=norm, bound=2.0)
    # Roots and powers are rounded, in another order than unsharded: a few units in the last place of float32.
    assert seen == pytest.approx(before, rel=4 * 2**-23)
    assert scaled == pytest.approx(whole.grad.tolist(), rel=8 * 2**-23)


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_param_dtype_is_for_computation_alone(five_ranks: Ranks, group: tuple[int, ...]) -> None:
    """Weights of 0.001 above whole numbers are stored as they are, computed with in bfloat16, and summed in float32."""
    import torch

    precision = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}
    stored = torch.arange(10, dtype=torch.float32) + 0.001
    values = five_ranks.values(
        f"{_ENTRIES}:precise",
        {"ranks": group, "precision": precision, "offset": 0.001},
        world_size=5,
        deadline=120,
    )
    for rank in group:
        whole, out, grad, kept = values[rank]
        assert whole == ["torch.bfloat16", stored.bfloat16().double().tolist()]
        assert out[0] == "torch.bfloat16"
        assert grad == ["torch.float32", gradient(len(group))]
        assert kept == ["torch.float32", stored.double().tolist()]


def test_reduce_dtype_is_that_of_the_sum(five_ranks: Ranks) -> None:
    """In bfloat16 a sum of gradients above 256 is rounded; reduced in float32 it is rounded once, at the end."""
    group = (0, 1, 2)
    grad = five_ranks.values(
        f"{_ENTRIES}:precise",
        {"ranks": group, "dtype": "bfloat16", "precision": {"reduce_dtype": "float32"}},
        world_size=5,
        deadline=120,
    )[0][2]
    assert grad == ["torch.bfloat16", gradient(3)]


# What `reshard_after_forward` says, and over how many of four ranks the weight is cut between forward and backward.
# A root keeps its parameters unless it is told otherwise.
RESHARDS = [(None, 1), (False, 1), (True, 4), (2, 2)]


@pytest.mark.parametrize(("reshard", "between"), RESHARDS, ids=str)
def test_what_a_user_sees_at_every_point(five_ranks: Ranks, reshard: bool | int | None, between: int) -> None:
    group = (0, 1, 2, 3)
    seen, weight = told(five_ranks, "states", group, reshard=reshard)
    cut = [4, 10]
    assert seen == {
        "constructed": cut,
        "after a forward without gradients": [between, 10],
        "after a forward": [between, 10],
        "after a backward": cut,
        "after a step": cut,
        "after a load": cut,
    }
    assert weight == [at - 0.5 * one for at, one in enumerate(gradient(4))]


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_tied_modules_stay_tied(five_ranks: Ranks, group: tuple[int, ...]) -> None:
    """Both uses count: x passes twice through ones, 3 x from the first and 3 x from the second, over all ranks."""
    one, grad, *saved = told(five_ranks, "tied", group)
    total = sum(6.0 * (rank + 1) for rank in group)
    assert one
    assert grad == [[total] * 3] * 3
    assert saved == [[[1 - total / 2] * 3] * 3] * 2
