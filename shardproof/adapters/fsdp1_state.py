"""Checkpoints of an FSDP1 module: state dicts by torch's own functions, through torch.distributed.checkpoint."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, set_model_state_dict
from torch.distributed.checkpoint.state_dict_loader import load as load_checkpoint
from torch.distributed.checkpoint.state_dict_saver import save as save_checkpoint


def save(root: nn.Module, path: str, group: dist.ProcessGroup, *, full: bool) -> None:
    """Write a state dict of whole tensors (FullStateDict) or of sharded ones (ShardedStateDict)."""
    save_checkpoint(_state_dict(root, full=full), checkpoint_id=path, process_group=group)


def load(root: nn.Module, path: str, group: dist.ProcessGroup, *, full: bool) -> None:
    """Into a state dict of that form, at this group's world size, and from it into the module."""
    state = _state_dict(root, full=full)
    load_checkpoint(state, checkpoint_id=path, process_group=group)
    with _quiet():
        set_model_state_dict(root, state, options=StateDictOptions(full_state_dict=full))


def read(names: Mapping[str, str], like: Mapping[str, torch.Tensor], path: str) -> dict[str, torch.Tensor]:
    """The whole tensors that a checkpoint holds, by the ids whose names in it these are; needs no other rank."""
    whole = {names[id]: torch.empty(tensor.shape, dtype=tensor.dtype) for id, tensor in like.items()}
    load_checkpoint(dict(whole), checkpoint_id=path, no_dist=True)
    return {id: whole[names[id]] for id in like}


def _state_dict(root: nn.Module, *, full: bool) -> dict[str, Any]:
    with _quiet():
        return get_model_state_dict(root, options=StateDictOptions(full_state_dict=full))


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the words about one rank, which has whole tensors in either form."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*NO_SHARD.*")
        yield
