"""Save and load at any world size. The file holds whole parameters in their true shapes; padding never gets there.

The file is what torch.save writes of {"format", "parameters": {id: tensor}, "scalars": {name: value}}, so that
torch.load(path, weights_only=True) reads it without this project. Tied ids share one tensor.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import torch

from gpu_impl.arithmetic import shard
from gpu_impl.errors import CheckpointError
from gpu_impl.exchange import exchange, on_ranks
from gpu_impl.gathering import gather, invalidate, land, release
from gpu_impl.parameters import Parameter
from gpu_impl.state import State

FORMAT = "gpu_impl checkpoint 1"

Result = TypeVar("Result")


def save(state: State, path: str | os.PathLike[str]) -> None:
    """Write every parameter; every rank calls it, and the file is complete on return on every rank.

    Rank 0 writes, under another name first, so that a file at `path` is always a whole one. Raises CheckpointError on
    every rank where that fails.
    """
    wholes: dict[Parameter, torch.Tensor] = {}
    trouble: list[str] = []
    for parameter in state.find_all(state.names):
        was_needed = parameter.valid or parameter.flight is not None
        whole = gather(state, parameter.id)
        if state.place.rank == 0:
            # A copy of the true shape: a view would bring its padded memory into the file.
            _attempt(trouble, partial(_keep, wholes, parameter, whole))
        del whole
        if not was_needed:
            release(state, parameter.id)
    if state.place.rank == 0 and not trouble:
        content = {
            "format": FORMAT,
            "parameters": {id: wholes[parameter] for id, parameter in state.names.items()},
            "scalars": dict(state.scalars),
        }
        _attempt(trouble, lambda: _write(content, os.fspath(path)))
    _agree(state, f"saving to {os.fspath(path)!r}", trouble)


def load(state: State, path: str | os.PathLike[str]) -> None:
    """Replace every parameter and scalar by what `save` wrote at whatever world size; every rank reads the file.

    Raises CheckpointError on every rank, and changes nothing, where the file cannot be read on some rank or holds
    other parameters than are registered.
    """
    trouble: list[str] = []
    loaded = _attempt(trouble, lambda: _cut(state, os.fspath(path)))
    _agree(state, f"loading from {os.fspath(path)!r}", trouble)
    assert loaded is not None  # every rank agreed that it has no trouble
    shards, scalars = loaded
    for parameter, contents in shards.items():
        land(state, parameter)
        state.order.writing(parameter.trace)
        parameter.shard.copy_(contents)
        invalidate(state, parameter)
    state.scalars = scalars


def read(path: str | os.PathLike[str]) -> dict[str, torch.Tensor]:
    """The parameters in a file that `save` wrote, on the CPU. Raises CheckpointError where it is none."""
    parameters: dict[str, torch.Tensor] = _content(os.fspath(path))["parameters"]
    return parameters


def _keep(wholes: dict[Parameter, torch.Tensor], parameter: Parameter, whole: torch.Tensor) -> None:
    wholes[parameter] = whole.to("cpu", copy=True)


def _write(content: Mapping[str, Any], path: str) -> None:
    unfinished = f"{path}.{os.getpid()}.partial"
    try:
        with open(unfinished, "wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        if os.path.exists(unfinished):
            os.remove(unfinished)


def _content(path: str) -> dict[str, Any]:
    try:
        content = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    except Exception as error:  # torch raises many kinds for a file that is none
        raise CheckpointError(f"cannot be read: {type(error).__name__}: {error}") from error
    found = content.get("format") if isinstance(content, dict) else None
    if found != FORMAT:
        raise CheckpointError(f"format is {found!r}, expected {FORMAT!r}")
    return dict(content)


def _cut(state: State, path: str) -> tuple[dict[Parameter, torch.Tensor], dict[str, Any]]:
    """This rank's shards of a file's parameters, and its scalars. Raises CheckpointError where they do not fit."""
    content = _content(path)
    found: dict[str, torch.Tensor] = content["parameters"]
    for id in sorted(found.keys() ^ state.names.keys()):
        where = "in the file but not registered" if id in found else "registered but not in the file"
        raise CheckpointError(f'parameter "{id}" is {where}')
    for id, parameter in state.names.items():
        for what, value, expected in (
            ("shape", tuple(found[id].shape), parameter.shape),
            ("dtype", found[id].dtype, parameter.dtype),
            ("shared with its tied ids", found[id].data_ptr() == found[parameter.id].data_ptr(), True),
        ):
            if value != expected:
                raise CheckpointError(f'parameter "{id}": {what} is {value} in the file, {expected} registered')
    place = state.place
    shards = {
        parameter: shard(found[parameter.id], place.rank, place.world_size, place.alignment)
        for parameter in state.find_all(state.names)
    }
    return shards, content["scalars"]


def _attempt(trouble: list[str], act: Callable[[], Result]) -> Result | None:
    """Act; what goes wrong is written down, since a rank that raised now would leave the others waiting."""
    try:
        return act()
    except Exception as error:  # whatever it is, the other ranks must hear of it
        trouble.append(str(error) if isinstance(error, CheckpointError) else f"{type(error).__name__}: {error}")
        return None


def _agree(state: State, what: str, trouble: list[str]) -> None:
    """Return on every rank, or raise CheckpointError with one text on every rank."""
    said = exchange("; ".join(trouble), objects=bool(trouble), group=state.group, device=state.place.device)
    if said is None:
        return
    ranks_with: dict[str, list[int]] = {}
    for rank, (objects, text) in enumerate(said):
        if objects:
            ranks_with.setdefault(text, []).append(rank)
    reasons = "; ".join(f"{text} on {on_ranks(ranks)}" for text, ranks in ranks_with.items())
    raise CheckpointError(f"{what} was refused on all {len(said)} ranks, nothing was changed: {reasons}")
