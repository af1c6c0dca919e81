"""What the adapters of torch's own sharding share: the protocol's model, local memory, and checkpoints.

`torch.distributed.checkpoint` has no adapter of its own: every save and load of DTensor, FSDP2 and FSDP1
(fsdp1_state.py), at any two world sizes, is one of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict_loader import load as load_checkpoint
from torch.distributed.checkpoint.state_dict_saver import save as save_checkpoint


def term(id: str, parameter: torch.Tensor, *, rank: int, value: int) -> torch.Tensor:  # noqa: ARG001  # a term's form
    """One parameter's part of the loss on this rank, in float64."""
    w = parameter.reshape(-1).to(torch.float64)
    x = (torch.arange(w.numel(), device=w.device) + 3 * rank + 5 * value) % 7 - 3
    return (w * x + w * w / 2).sum()


def local_of(sharded: Any) -> torch.Tensor:
    """What this rank stores of a DTensor, its own memory."""
    local: torch.Tensor = sharded.to_local()
    return local.detach()


def save(sharded: Mapping[str, Any], path: str, group: dist.ProcessGroup) -> None:
    """Write DTensors through torch.distributed.checkpoint."""
    save_checkpoint(dict(sharded), checkpoint_id=path, process_group=group)


def load(sharded: Mapping[str, Any], path: str, group: dist.ProcessGroup) -> None:
    """Into the DTensors, at this group's world size."""
    load_checkpoint(dict(sharded), checkpoint_id=path, process_group=group)


def read(sharded: Mapping[str, Any], path: str) -> dict[str, torch.Tensor]:
    """The whole tensors that a checkpoint holds; needs no other rank."""
    whole = {id: torch.empty(dtensor.shape, dtype=dtensor.dtype) for id, dtensor in sharded.items()}
    load_checkpoint(dict(whole), checkpoint_id=path, no_dist=True)
    return whole
