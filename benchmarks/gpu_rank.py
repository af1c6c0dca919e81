"""What runs on the ranks of `benchmarks/gpu.py`: each function compares ways to do one thing, in turns in one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

import gpu_impl
from shardproof.rank_side.costs import Variant, compared
from shardproof.rank_side.sessions import Spec
from shardproof.ranks import Context

Answer = tuple[Any, Sequence[bytes]]


def prefetches(context: Context, payload: dict[str, Any], blobs: Sequence[bytes]) -> Answer:  # noqa: ARG001  # the pool's form
    """Everything that gathers `count` parameters of `numel` elements each."""
    group, device = context.group(tuple(payload["ranks"])), torch.device(context.device)
    count, numel = payload["count"], payload["numel"]
    fulls = [torch.zeros(numel, dtype=torch.bfloat16, device=device) for _ in range(count)]
    session, ids = _session(fulls, group, device), [str(i) for i in range(count)]
    shards = [session.shard(id) for id in ids]
    unit = _fsdp_unit(fulls, group, device)

    def invalidate() -> None:
        for id in ids:
            session.invalidate(id)

    def prefetched() -> list[torch.Tensor]:
        session.prefetch(ids)
        return [session.wait(id) for id in ids]

    variants = {
        "one prefetch": Variant(prefetched, before=invalidate),
        "single gathers": Variant(lambda: [session.gather(id) for id in ids], before=invalidate),
        "FSDP2 unshard": Variant(unit.unshard, before=unit.reshard),
        "allocate and gather each": Variant(lambda: [_fresh(shard, numel, group) for shard in shards]),
    }
    return compared(variants, payload["rounds"], payload["calls"], device), ()


def registration(context: Context, payload: dict[str, Any], blobs: Sequence[bytes]) -> Answer:  # noqa: ARG001  # the pool's form
    """Registering `count` parameters with their one exchange, and `count` collectives of one number a rank each."""
    group, device = context.group(tuple(payload["ranks"])), torch.device(context.device)
    fulls = [torch.zeros(7, dtype=torch.bfloat16, device=device) for _ in range(payload["count"])]
    sizes = torch.zeros(1, dtype=torch.int64, device=device)

    def each() -> None:
        for _ in fulls:
            _fresh(sizes, group.size(), group).tolist()

    variants = {
        "one exchange": Variant(lambda: _session(fulls, group, device)),
        "one collective each": Variant(each),
    }
    return compared(variants, payload["rounds"], 1, device), ()


def replayed(context: Context, payload: dict[str, Any], blobs: Sequence[bytes]) -> Answer:  # noqa: ARG001  # the pool's form
    """A captured CUDA graph of one gather, and of one bare collective."""
    group, device = context.group(tuple(payload["ranks"])), torch.device(context.device)
    session = _session([torch.zeros(payload["numel"], dtype=torch.bfloat16, device=device)], group, device)
    shard = session.shard("0")
    buffer = shard.new_empty(shard.numel() * group.size())

    def gather() -> torch.Tensor:
        session.invalidate("0")
        return session.gather("0")

    variants = {
        "shipped gather": Variant(_captured(gather).replay),
        "bare collective": Variant(_captured(lambda: _public()(buffer, shard, group=group)).replay),
    }
    return compared(variants, payload["rounds"], payload["calls"], device), ()


def overlap(context: Context, payload: dict[str, Any], blobs: Sequence[bytes]) -> Answer:  # noqa: ARG001  # the pool's form
    """A gather of `numel` elements and a product of two matrices of `rows` rows, one after the other and at once."""
    group, device = context.group(tuple(payload["ranks"])), torch.device(context.device)
    session = _session([torch.zeros(payload["numel"], dtype=torch.bfloat16, device=device)], group, device)
    matrix = torch.zeros(payload["rows"], payload["rows"], dtype=torch.bfloat16, device=device)
    product = torch.empty_like(matrix)

    def multiply() -> None:
        torch.mm(matrix, matrix, out=product)

    def one_after_the_other() -> None:
        session.gather("0")
        multiply()

    def at_once() -> None:
        session.prefetch(["0"])
        multiply()
        session.wait("0")

    variants = {
        "gather": Variant(lambda: session.gather("0"), before=lambda: session.invalidate("0")),
        "product": Variant(multiply),
        "gather, then product": Variant(one_after_the_other, before=lambda: session.invalidate("0")),
        "product during prefetch": Variant(at_once, before=lambda: session.invalidate("0")),
    }
    return compared(variants, payload["rounds"], payload["calls"], device), ()


def symmetric(context: Context, payload: dict[str, Any], blobs: Sequence[bytes]) -> Answer:  # noqa: ARG001  # the pool's form
    """A gather out of the other ranks' memory against one by the backend; why not, where there is no such memory."""
    group, device = context.group(tuple(payload["ranks"])), torch.device(context.device)
    full = torch.zeros(payload["numel"], dtype=torch.bfloat16, device=device)
    try:
        copying = _session([full], group, device, symmetric_memory=True)
    except gpu_impl.RefusedError as reason:
        return str(reason), ()
    calling = _session([full], group, device)
    variants = {
        "symmetric memory": Variant(lambda: copying.gather("0"), before=lambda: copying.invalidate("0")),
        "collective": Variant(lambda: calling.gather("0"), before=lambda: calling.invalidate("0")),
    }
    return compared(variants, payload["rounds"], payload["calls"], device), ()


def bandwidth(context: Context, payload: dict[str, Any], blobs: Sequence[bytes]) -> Answer:  # noqa: ARG001  # the pool's form
    """Bytes a second that a copy inside the device's memory moves, each byte read and written."""
    source = torch.zeros(payload["nbytes"], dtype=torch.uint8, device=context.device)
    target = torch.empty_like(source)
    timed = compared({"copy": Variant(lambda: target.copy_(source))}, payload["rounds"], 5, source.device)
    return 2 * source.nbytes / timed["copy"]["device"], ()


def _session(
    fulls: Sequence[torch.Tensor], group: dist.ProcessGroup, device: torch.device, *, symmetric_memory: bool = False
) -> gpu_impl.Session:
    session = gpu_impl.Session(group, device, symmetric_memory=symmetric_memory)
    specs = [Spec(str(i), tuple(full.shape), full.dtype, full) for i, full in enumerate(fulls)]
    session.register(specs)  # type: ignore[arg-type]  # a Spec's full is a tensor, never None
    return session


def _fsdp_unit(fulls: Sequence[torch.Tensor], group: dist.ProcessGroup, device: torch.device) -> Any:
    """One module under one fully_shard, so that one unshard gathers everything."""
    unit = nn.Module()
    for i, full in enumerate(fulls):
        unit.register_parameter(f"p{i}", nn.Parameter(full.clone()))
    return fully_shard(unit, mesh=DeviceMesh.from_group(group, device.type))


def _fresh(shard: torch.Tensor, numel: int, group: dist.ProcessGroup) -> torch.Tensor:
    """What a gather without kept buffers does."""
    buffer = shard.new_empty(shard.numel() * group.size())
    _public()(buffer, shard, group=group)
    return buffer[:numel]


def _public() -> Any:
    """torch's own function, under the name that this torch has."""
    return dist.all_gather_single if hasattr(dist, "all_gather_single") else dist.all_gather_into_tensor


def _captured(act: Callable[[], object]) -> Any:
    """The act as a graph, after it ran as often as NCCL and the allocator need."""
    for _ in range(3):
        act()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        act()
    return graph
