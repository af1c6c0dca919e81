"""One smallest use of an implementation before any search: is it one at all?

What goes wrong for three float32 elements on one rank is a misunderstanding of the form, not a finding.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
import torch.distributed as dist

from shardproof.case import Parameter
from shardproof.layouts import cuts_of, plainest
from shardproof.rank_side.sessions import Loaded, Spec, open_session

_SHAPE = (3,)


def probe(loaded: Loaded, group: dist.ProcessGroup, device: torch.device) -> str:
    """What is wrong with the implementation's form, in one sentence; empty where nothing is."""
    full = torch.tensor([1.0, 2.0, 3.0], device=device)
    spec = Spec("probe", _SHAPE, torch.float32, full, grad=torch.zeros(_SHAPE, device=device))
    try:
        layout = plainest(loaded.attribute("layouts", ("flat_padded",))[0])
        shard = loaded.function("shard")
        if shard is not None:
            options = cuts_of(layout, (Parameter(spec.id, _SHAPE),), 1)[spec.id].options
            spec.shard = shard(full.clone(), 0, 1, **options)
            wrong = _wrong("shard(full, rank=0, world_size=1)", spec.shard, device)
            if wrong:
                return wrong
        session = open_session(loaded, group, device, asdict(layout))
        session.register([spec])
        return _wrong("gather at world size 1", session.gather("probe"), device)
    except Exception as error:  # whatever it raises is the answer
        return f"raised {type(error).__name__} for three float32 elements at world size 1: {error}"


def _wrong(call: str, result: Any, device: torch.device) -> str:
    if not isinstance(result, torch.Tensor):
        return f"{call} returned {type(result).__name__}, expected a torch.Tensor"
    if result.dtype != torch.float32:
        return f"{call} returned {result.dtype} for a torch.float32 parameter, expected the same dtype"
    if result.device.type != device.type:
        return f"{call} returned a tensor on {result.device}, expected {device}"
    return ""
