"""What runs on a rank: which dtypes its backend really gathers and adds up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from shardproof.ranks import Context

NUMEL = 3


def truth(context: Context, payload: Mapping[str, Any], blobs: Sequence[bytes]) -> tuple[Any, Sequence[bytes]]:
    """By dtype of `payload["dtypes"]`: "gathers" and "adds", or the first words of what was raised or came instead."""
    group = context.group(tuple(payload["ranks"]))
    return {
        name: {
            what: _tried(attempt, getattr(torch, name), group, context.device) for what, attempt in _ATTEMPTS.items()
        }
        for name in payload["dtypes"]
    }, ()


def _tried(attempt: Callable[[torch.dtype, Any, str], str], dtype: torch.dtype, group: Any, device: str) -> str:
    try:
        return attempt(dtype, group, device)
    except Exception as error:
        return f"{type(error).__name__}: {error}".partition("\n")[0][:200]


def _gathers(dtype: torch.dtype, group: Any, device: str) -> str:
    def bits(rank: int) -> torch.Tensor:
        return (
            torch.arange(NUMEL * dtype.itemsize, dtype=torch.uint8)
            .add(16 * rank)
            .remainder(2 if _is_bool(dtype) else 255)
        )

    received = torch.empty(group.size() * NUMEL, dtype=dtype, device=device)
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    gather(received, bits(group.rank()).to(device).view(dtype), group=group)
    expected = torch.cat([bits(rank) for rank in range(group.size())])
    return "yes" if torch.equal(received.view(torch.uint8).cpu(), expected) else "other bits"


def _adds(dtype: torch.dtype, group: Any, device: str) -> str:
    """Small whole numbers, whose sum every dtype but bool holds."""

    def numbers(rank: int) -> torch.Tensor:
        return torch.arange(group.size() * NUMEL).remainder(2) + rank % 2

    send = numbers(group.rank()).to(device).to(dtype)
    received = torch.empty(NUMEL, dtype=dtype, device=device)
    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    scatter(received, send, group=group)
    total = sum(numbers(rank) for rank in range(group.size()))
    expected = torch.as_tensor(total)[group.rank() * NUMEL :][:NUMEL].to(torch.float64)
    found = received.cpu().to(torch.complex128).real
    return "yes" if torch.equal(found, expected) else f"{found.tolist()} in place of {expected.tolist()}"


_ATTEMPTS = {"gathers": _gathers, "adds": _adds}


def _is_bool(dtype: torch.dtype) -> bool:
    return dtype is torch.bool
