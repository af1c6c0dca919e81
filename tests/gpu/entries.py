"""What the GPU tests run on a rank. Each returns a JSON value; a planted mistake is named by the payload."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

import gpu_impl
from shardproof.ranks import Context

Answer = tuple[Any, Sequence[bytes]]
NUMEL = 100_003
_kept: list[torch.Tensor] = []


def nothing(context: Context, payload: Any, blobs: Sequence[bytes]) -> Answer:  # the pool's form
    return None, ()


def steady_costs(context: Context, payload: dict[str, Any], blobs: Sequence[bytes]) -> Answer:  # as above
    """Syncs, allocations and kernels of one warm gather, measured by torch itself."""
    gather = _planted(_warm_gather(context, payload["ranks"], NUMEL), payload.get("plant"))
    gather()
    torch.cuda.synchronize()
    answer = {"syncs": _syncs(gather), "allocations": _allocations(gather), "kernels": _kernels(gather)}
    _kept.clear()
    return answer, ()


def captured(context: Context, payload: dict[str, Any], blobs: Sequence[bytes]) -> Answer:  # as above
    """Whether a warm gather can be captured in a CUDA graph, and whether a replay gathers what the shard holds then."""
    session, shard, gather = _session(context, payload["ranks"], NUMEL)
    stream = torch.cuda.Stream()  # a capture may not wait for work that another stream did before it
    with torch.cuda.stream(stream):
        gather()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        result = gather()
    shard.fill_(7)
    torch.cuda.synchronize()
    graph.replay()
    torch.cuda.synchronize()
    del session
    return bool((result == 7).all().item()), ()


def prefetch_calls(context: Context, payload: dict[str, Any], blobs: Sequence[bytes]) -> Answer:  # as above
    """How many NCCL kernels a prefetch of 16 parameters launches, and whether all bits arrive."""
    group = context.group(tuple(payload["ranks"]))
    device = torch.device(context.device)
    session = gpu_impl.Session(group, device)
    fulls = {f"p{i}": torch.randn(1000 + 7 * i, device=device, generator=_seeded(device, i)) for i in range(16)}
    session.register([_spec(id, full, group) for id, full in fulls.items()])
    _everything(session, fulls)
    torch.cuda.synchronize()
    for id in fulls:
        session.invalidate(id)
    kernels = _kernels(lambda: _everything(session, fulls))
    right = all(torch.equal(session.gather(id), full) for id, full in fulls.items())
    return {"kernels": kernels, "right": right}, ()


def large(context: Context, payload: dict[str, Any], blobs: Sequence[bytes]) -> Answer:  # as above
    """Gather a parameter too large for 32-bit counts or offsets and compare it piece by piece."""
    group = context.group(tuple(payload["ranks"]))
    device = torch.device(context.device)
    numel, dtype = payload["numel"], getattr(torch, payload["dtype"])
    full = _pattern(-(-numel * dtype.itemsize // 4), device).view(torch.uint8)[: numel * dtype.itemsize].view(dtype)
    session = gpu_impl.Session(group, device)
    session.register([_spec("w", full, group)])
    result = session.gather("w")
    same = torch.equal(result.view(torch.uint8), full.view(torch.uint8))
    del session, result, full
    torch.cuda.empty_cache()
    return same, ()


def _everything(session: Any, fulls: dict[str, torch.Tensor]) -> None:
    session.prefetch(list(fulls))
    for id in fulls:
        session.wait(id)


def _pattern(count: int, device: torch.device) -> torch.Tensor:
    """`count` 4-byte words, no two alike."""
    words = torch.arange(count, dtype=torch.int32, device=device)
    return words.mul_(-1640531527).add_(12345)


def _seeded(device: torch.device, seed: int) -> torch.Generator:
    return torch.Generator(device).manual_seed(seed)


def _spec(id: str, full: torch.Tensor, group: Any) -> Any:
    shard = gpu_impl.shard(full, group.rank(), group.size())
    return SimpleNamespace(
        id=id, shape=tuple(full.shape), dtype=full.dtype, full=full, shard=shard, grad=None,
        requires_grad=False, tied_to=None, comm_dtype=None,
    )  # fmt: skip  # one field a line would hide that this is the plain case


def session_of(context: Context, ranks: Sequence[int], fulls: Mapping[str, torch.Tensor]) -> gpu_impl.Session:
    """A session of these ranks with these parameters registered."""
    group = context.group(tuple(ranks))
    session = gpu_impl.Session(group, torch.device(context.device))
    session.register([_spec(id, full, group) for id, full in fulls.items()])
    return session


def _session(context: Context, ranks: list[int], numel: int) -> tuple[Any, torch.Tensor, Callable[[], torch.Tensor]]:
    session = session_of(context, ranks, {"w": torch.zeros(numel, device=context.device)})

    def gather() -> torch.Tensor:
        session.invalidate("w")
        result: torch.Tensor = session.gather("w")
        return result

    return session, session.shard("w"), gather


def _warm_gather(context: Context, ranks: list[int], numel: int) -> Callable[[], torch.Tensor]:
    _, _, gather = _session(context, ranks, numel)
    for _ in range(3):
        gather()
    torch.cuda.synchronize()
    return gather


def _planted(gather: Callable[[], torch.Tensor], plant: str | None) -> Callable[[], object]:
    """The gather with one mistake after it."""
    plants: dict[str | None, Callable[[torch.Tensor], object]] = {
        None: lambda _: None,
        "copy": lambda result: _kept[0].copy_(result) if _kept else _kept.append(torch.empty_like(result)),
        "allocation": lambda result: _kept.append(torch.empty_like(result)),
        "item": lambda result: result[0].item(),
        "sync": lambda result: result.cpu(),
    }
    return lambda: plants[plant](gather())


def _syncs(gather: Callable[[], object]) -> int:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            gather()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("called a synchronizing CUDA operation" in str(warning.message) for warning in caught)


def _allocations(gather: Callable[[], object]) -> int:
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    gather()
    after: int = torch.cuda.memory_stats()["allocation.all.allocated"]
    return after - before


def _kernels(gather: Callable[[], object]) -> list[str]:
    """The names of everything the GPU did: kernels, copies and fills. "nccl:" names are notes around them, no work."""
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiler:
        gather()
        torch.cuda.synchronize()
    done = [event.name for event in profiler.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    return [name for name in done if not name.startswith("nccl:")]
