"""What a gather costs on a rank: the shipped one, the bare collective, and what it replaced, in turns in one run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

import gpu_impl
from gpu_impl import all_gather
from shardproof.rank_side.sessions import Spec
from shardproof.rank_side.tensors import torch_dtype
from shardproof.ranks import Context

Variant = Callable[[], object]


def measure(context: Context, payload: dict[str, Any], blobs: Sequence[bytes]) -> tuple[Any, Sequence[bytes]]:  # noqa: ARG001  # the pool's form
    """Median seconds a call of every variant, by numel.

    payload: ranks of the group, numels, dtype, rounds, and calls a round. On CUDA "device" times are between events
    and "host" times are what the calling thread spends; on the CPU they are the same thing.
    """
    group = context.group(tuple(payload["ranks"]))
    device = torch.device(context.device)
    dtype = torch_dtype(payload["dtype"])
    answer = {}
    for numel in payload["numels"]:
        variants = _variants(numel, dtype, group, device)
        for variant in variants.values():
            variant()
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
        for _ in range(payload["rounds"]):
            for name, variant in variants.items():
                times[name].append(_timed(variant, payload["calls"], device))
        answer[str(numel)] = {
            name: {"device": statistics.median(t[0] for t in taken), "host": statistics.median(t[1] for t in taken)}
            for name, taken in times.items()
        }
        del variants
    return answer, ()


def _variants(numel: int, dtype: torch.dtype, group: dist.ProcessGroup, device: torch.device) -> dict[str, Variant]:
    """The variants by name, each one gather of the same parameter."""
    world_size = group.size()
    full = torch.zeros(numel, dtype=dtype, device=device)
    shard = gpu_impl.shard(full, group.rank(), world_size)
    padded = shard.numel() * world_size
    session = gpu_impl.Session(group, device)
    spec = Spec("w", (numel,), dtype, full, shard)
    session.register([spec])  # type: ignore[list-item]  # its full is a tensor, never None
    buffer = torch.empty(padded, dtype=dtype, device=device)
    source = torch.zeros(padded, dtype=dtype, device=device)

    def shipped() -> torch.Tensor:
        session.invalidate("w")
        return session.gather("w")

    def raw() -> None:
        all_gather(buffer, shard, group)

    def replaced() -> torch.Tensor:
        fresh = torch.empty(padded, dtype=dtype, device=device)
        all_gather(fresh, shard, group)
        return fresh[:numel].clone()

    def allocation() -> torch.Tensor:
        return torch.empty(padded, dtype=dtype, device=device)

    def copy() -> torch.Tensor:
        return source[:numel].clone()

    return {
        "shipped gather": shipped,
        "bare collective": raw,
        "allocate, gather, copy": replaced,
        "allocation alone": allocation,
        "copy alone": copy,
    }


def _timed(variant: Variant, calls: int, device: torch.device) -> tuple[float, float]:
    """(device, host) seconds a call."""
    if device.type != "cuda":
        began = time.perf_counter()
        for _ in range(calls):
            variant()
        spent = (time.perf_counter() - began) / calls
        return spent, spent
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]  # torch's
    torch.cuda.synchronize()
    began = time.perf_counter()
    before.record()
    for _ in range(calls):
        variant()
    after.record()
    host = (time.perf_counter() - began) / calls
    torch.cuda.synchronize()
    return before.elapsed_time(after) / 1000 / calls, host
