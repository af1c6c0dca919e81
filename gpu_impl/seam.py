"""The collectives, under whichever names this torch has, and the private torch calls that buffers and streams need.

torch 2.13 renamed all_gather_into_tensor and reduce_scatter_tensor to all_gather_single and reduce_scatter_single and
warns at the old names; 2.11 has the old ones only. Chosen once, at import.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import AllgatherOptions

from gpu_impl.errors import CollectiveError

_NEW = hasattr(dist, "all_gather_single")
_gather_directly: Any = dist.ProcessGroup.all_gather_single if _NEW else dist.ProcessGroup._allgather_base
_gather_coalesced: Any = (
    dist.ProcessGroup.all_gather_single_coalesced if _NEW else dist.ProcessGroup.allgather_into_tensor_coalesced
)
_AT_ONCE, _AHEAD = AllgatherOptions(), AllgatherOptions()
_AT_ONCE.asyncOp, _AHEAD.asyncOp = False, True
_reduce_scatter = dist.reduce_scatter_single if _NEW else dist.reduce_scatter_tensor

# A receive buffer of W*p elements and the send buffer of p elements that each rank contributes.
Pair = tuple[torch.Tensor, torch.Tensor]


class Work(Protocol):
    """A collective under way."""

    def wait(self) -> object:
        """On the CPU returns when it is done; on CUDA makes the current stream wait and returns at once."""


def all_gather(receive: torch.Tensor, send: torch.Tensor, group: dist.ProcessGroup) -> None:
    """Concatenate every rank's `send` in `receive`, in the order of the current stream.

    The group's own method: what the public function looks for before it (tracing, a coalescing context) costs more
    host time than launching the collective, and is not the case here.
    """
    try:
        work = _gather_directly(group, receive, send, _AT_ONCE)
        if work is not None:  # NCCL has put it in the stream's order already
            work.wait()
    except RuntimeError as error:
        raise _failed("all-gather", (send,), group, error) from error


def start_all_gather(pairs: Sequence[Pair], group: dist.ProcessGroup) -> Work:
    """Start gathering all pairs (at least one, all of one dtype) as one collective.

    gloo concatenates the operands of a coalesced collective, and so would convert them to a common dtype.
    """
    try:
        receives, sends = map(list, zip(*pairs, strict=True))
        work: Work = (
            _gather_directly(group, receives[0], sends[0], _AHEAD)
            if len(pairs) == 1
            else _gather_coalesced(group, receives, sends, _AHEAD)
        )
    except RuntimeError as error:
        raise _failed("all-gather", [send for _, send in pairs], group, error) from error
    return work


def finish_all_gather(work: Work, pairs: Sequence[Pair], group: dist.ProcessGroup) -> None:
    """Wait for what `start_all_gather` started on these pairs."""
    try:
        work.wait()
    except RuntimeError as error:
        raise _failed("all-gather", [send for _, send in pairs], group, error) from error


def reduce_scatter(receive: torch.Tensor, send: torch.Tensor, group: dist.ProcessGroup) -> None:
    """Sum every rank's `send` of W*p elements and keep this rank's p in `receive`. `send` is only read."""
    try:
        _reduce_scatter(receive, send, group=group)
    except RuntimeError as error:
        raise _failed("reduce-scatter", (send,), group, error) from error


def all_reduce(tensor: torch.Tensor, group: dist.ProcessGroup) -> None:
    """Replace `tensor` by its sum over ranks."""
    try:
        dist.all_reduce(tensor, group=group)
    except RuntimeError as error:
        raise _failed("all-reduce", (tensor,), group, error) from error


def _failed(what: str, sends: Sequence[torch.Tensor], group: dist.ProcessGroup, error: RuntimeError) -> CollectiveError:
    sizes = ", ".join(f"{send.numel()} x {str(send.dtype).removeprefix('torch.')}" for send in sends)
    return CollectiveError(
        f"{what} of {sizes} failed on rank {group.rank()} of {group.size()}: {error}\n"
        "shards and pending gradients are unchanged; call again once the group works"
    )


def holders(tensor: torch.Tensor) -> int:
    """How many tensors and Python objects hold this tensor's memory. Only differences between two calls mean anything.

    Tensors count at the storage; whoever kept `untyped_storage()` alone counts as a reference to that one object.
    """
    storage = tensor.untyped_storage()
    return torch._C._storage_Use_Count(storage._cdata) + sys.getrefcount(storage)


def current(device: torch.device) -> tuple[object, bool]:
    """Names the current CUDA stream and says whether a graph is being captured; torch's own objects cost ten times."""
    index = torch._C._cuda_getDevice() if device.index is None else device.index
    return torch._C._cuda_getCurrentStream(index), torch._C._cuda_isCurrentStreamCapturing()
