"""One place knows torch's names for the collectives, new and old, and no warning leaves it."""

from __future__ import annotations

import importlib
import warnings
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from tests.gpu_impl.support import Answer

# What the module has, what it lacks, the group's own methods that go with it.
NAMES = [
    (("all_gather_single", "reduce_scatter_single"), (), ("all_gather_single", "all_gather_single_coalesced")),
    (
        ("all_gather_into_tensor", "reduce_scatter_tensor"),
        ("all_gather_single", "reduce_scatter_single"),
        ("_allgather_base", "allgather_into_tensor_coalesced"),
    ),
]


@pytest.mark.parametrize(("has", "lacks", "methods"), NAMES)
def test_the_names_that_torch_has_are_used(
    monkeypatch: pytest.MonkeyPatch, has: tuple[str, ...], lacks: tuple[str, ...], methods: tuple[str, ...]
) -> None:
    from gpu_impl import seam

    stand_ins = {name: object() for name in has}
    group = SimpleNamespace(**{name: object() for name in methods})
    with monkeypatch.context() as patched:
        for name in lacks:
            patched.delattr(dist, name, raising=False)
        for name, stand_in in stand_ins.items():
            patched.setattr(dist, name, stand_in, raising=False)
        patched.setattr(dist, "ProcessGroup", group)
        importlib.reload(seam)
        assert seam._reduce_scatter is stand_ins[has[1]]
        assert [seam._gather_directly, seam._gather_coalesced] == [getattr(group, name) for name in methods]
    importlib.reload(seam)


def quiet(context: Any, world_size: int, _blobs: Any) -> Answer:
    """Every collective, with warnings as errors."""
    from gpu_impl import seam

    group = context.group(tuple(range(world_size)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        receive, send = torch.zeros(world_size), torch.ones(1)
        seam.all_gather(receive, send, group)
        pairs = [(torch.zeros(world_size), send) for _ in range(2)]
        for count in (1, 2):
            seam.finish_all_gather(seam.start_all_gather(pairs[:count], group), pairs[:count], group)
        seam.reduce_scatter(send, receive, group)
        seam.all_reduce(receive, group)
    assert [receive[0].item(), send.item(), *(pair[0][0].item() for pair in pairs)] == [world_size, world_size, 1, 1]
    return None, ()


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_no_warning_is_printed(ranks: Any, world_size: int) -> None:
    ranks.values(quiet, world_size, world_size=world_size)


def test_who_holds_memory_is_counted() -> None:
    from gpu_impl.seam import holders

    memory = torch.zeros(4)
    alone = holders(memory)
    views = [memory[1:], memory.view(2, 2).t()]
    assert holders(memory) == alone + 2
    views.pop()
    assert holders(memory) == alone + 1
    kept = views.pop().untyped_storage()
    assert holders(memory) == alone + 1
    del kept
    assert holders(memory) == alone
