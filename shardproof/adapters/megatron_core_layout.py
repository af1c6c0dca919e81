"""Where Megatron-Core's own buffers and its distributed optimizer put a parameter, at true size and without memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from megatron.core.distributed import DistributedDataParallelConfig
from megatron.core.distributed.param_and_grad_buffer import _ParamAndGradBuffer
from megatron.core.optimizer.distrib_optimizer import DistributedOptimizer
from megatron.core.process_groups_config import ProcessGroupCollection
from torch import nn

_FIXED = {"kind": "bucket", "parameter_alignment": 64, "bucket_alignment": 128}
# All in one bucket, which is Megatron-Core's default, and bucket sizes that few parameters reach.
specs = (_FIXED, *({**_FIXED, "bucket_least": least} for least in (1, 65, 200)))


@dataclass(frozen=True, slots=True)
class Place:
    """What Megatron-Core asks of a process group that it does not communicate in."""

    number: int
    ranks: int

    def rank(self) -> int:
        """This rank's number."""
        return self.number

    def size(self) -> int:
        """How many there are."""
        return self.ranks


@contextmanager
def buffers_on(device: torch.device) -> Iterator[None]:
    """Buffers are allocated on the current CUDA device, by its number; here that is `device`."""
    asked = torch.cuda.current_device
    torch.cuda.current_device = lambda: device  # type: ignore[assignment,return-value]  # it goes into `device=` alone
    try:
        yield
    finally:
        torch.cuda.current_device = asked


def config_of(layout: Mapping[str, Any]) -> DistributedDataParallelConfig:
    """Buckets are there where gradients are reduced while the backward goes on, and only there."""
    size = layout.get("bucket_least")
    return DistributedDataParallelConfig(
        use_distributed_optimizer=True, overlap_grad_reduce=size is not None, bucket_size=size
    )


def own_ranges(buffer: _ParamAndGradBuffer) -> dict[nn.Parameter, slice]:
    """Which of a parameter's elements this rank has, as the distributed optimizer says; none where it is not named."""
    (buckets,) = DistributedOptimizer._build_gbuf_range_map(buffer).values()
    found = {param: ranges["param"] for bucket in buckets for param, ranges in bucket["param_map"].items()}
    return {param: slice(own.start, own.end) for param, own in found.items()}


def layout(
    shape: Sequence[int],  # noqa: ARG001  # it is among `shapes`
    rank: int,
    world_size: int,
    *,
    shapes: Sequence[Sequence[int]],
    index: int,
    bucket_least: int | None = None,
    **_: int,
) -> dict[str, Any]:
    """Read off a buffer on the meta device.

    Its elements are bytes, so that 2^62 of them are not too many. Megatron-Core lays parameters out from the last to
    the first, and the layout under test from the first to the last.
    """
    params = [nn.Parameter(torch.empty(tuple(one), dtype=torch.uint8, device="meta"), False) for one in shapes]
    group = Place(rank, world_size)
    with buffers_on(torch.device("meta")):
        buffer = _ParamAndGradBuffer(
            config_of({"bucket_least": bucket_least}),
            torch.uint8,
            torch.uint8,
            params[::-1],
            group,
            bucket_least,
            {param: str(at) for at, param in enumerate(params)},
            gradient_scaling_factor=1.0,
            param_indices=list(range(len(params))),
            nccl_ub=False,
            pg_collection=ProcessGroupCollection(tp=Place(0, 1), dp_cp=group),
        )
    start, _, bucket = buffer.param_index_map[params[index]]
    low, high = buffer.bucket_indices[bucket]
    own = own_ranges(buffer).get(params[index], slice(0, 0))
    numel = own.stop - own.start
    return {
        "shard_numel": numel,
        "padded_numel": high - low,
        "runs": [(0, own.start, numel, numel, 1)] if numel else [],
        "place": (start, low, high),
    }
