"""What a gather costs on a rank: the shipped one, the bare collective, and what it replaced, in turns in one run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

import gpu_impl
from shardproof.rank_side.sessions import Spec
from shardproof.rank_side.tensors import torch_dtype
from shardproof.ranks import Context


def _nothing() -> None:
    """Most variants need no preparation."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to do it; `before` every call something may have to be prepared, which host times leave out."""

    call: Callable[[], object]
    before: Callable[[], object] = _nothing


def measure(context: Context, payload: dict[str, Any], blobs: Sequence[bytes]) -> tuple[Any, Sequence[bytes]]:  # noqa: ARG001  # the pool's form
    """Median seconds a call of every variant, by numel.

    payload: ranks of the group, numels, dtype, rounds, and calls a round.
    """
    group = context.group(tuple(payload["ranks"]))
    device = torch.device(context.device)
    dtype = torch_dtype(payload["dtype"])
    answer = {}
    for numel in payload["numels"]:
        answer[str(numel)] = compared(
            _variants(numel, dtype, group, device), payload["rounds"], payload["calls"], device
        )
    return answer, ()


def compared(
    variants: Mapping[str, Variant], rounds: int, calls: int, device: torch.device
) -> dict[str, dict[str, float]]:
    """Median seconds a call of every variant, which take turns.

    On CUDA "device" times are between events around all calls of a round, and "host" times are what the calling thread
    spends in a call; on the CPU both are the latter.
    """
    for variant in variants.values():
        variant.before()
        variant.call()
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, variant in variants.items():
            times[name].append(_timed(variant, calls, device))
    return {
        name: {"device": statistics.median(t[0] for t in taken), "host": statistics.median(t[1] for t in taken)}
        for name, taken in times.items()
    }


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
    public = dist.all_gather_single if hasattr(dist, "all_gather_single") else dist.all_gather_into_tensor

    def raw() -> None:
        public(buffer, shard, group=group)

    def replaced() -> torch.Tensor:
        fresh = torch.empty(padded, dtype=dtype, device=device)
        public(fresh, shard, group=group)
        return fresh[:numel].clone()

    def allocation() -> torch.Tensor:
        return torch.empty(padded, dtype=dtype, device=device)

    def copy() -> torch.Tensor:
        return source[:numel].clone()

    return {
        "shipped gather": Variant(lambda: session.gather("w"), before=lambda: session.invalidate("w")),
        "bare collective": Variant(raw),
        "allocate, gather, copy": Variant(replaced),
        "allocation alone": Variant(allocation),
        "copy alone": Variant(copy),
    }


def _timed(variant: Variant, calls: int, device: torch.device) -> tuple[float, float]:
    """(device, host) seconds a call."""
    cuda = device.type == "cuda"
    if cuda:
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]  # torch's
        torch.cuda.synchronize()
        before.record()
    host = 0.0
    for _ in range(calls):
        variant.before()
        began = time.perf_counter()
        variant.call()
        host += time.perf_counter() - began
    if not cuda:
        return host / calls, host / calls
    after.record()
    torch.cuda.synchronize()
    return before.elapsed_time(after) / 1000 / calls, host / calls
