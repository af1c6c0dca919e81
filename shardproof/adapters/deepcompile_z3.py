"""DeepCompile's ZeRO-3 operations, DeepSpeed's native part that PR 7489 changed: flat, padded, over NCCL alone.

They are called as compiled graphs call them (deepspeed/compile/init_z3.py and the passes): parameters are registered
and form one graph, a gather is `allgather_param` and `wait_allgather`, a release counts down one user, gradients go to
`reduce_grad` between the start and the end of a backward, and that end makes stale what was gathered before a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from deepspeed.ops.op_builder import DeepCompileBuilder

if TYPE_CHECKING:
    from shardproof.case import Case
    from shardproof.protocol import Spec

promises = ()

_GRAPH = 0
_BUCKET = 1 << 20  # elements
_SWITCHES = ("double_buffer", "symmetric_memory", "offload_activation_pin_memory")
_SYNCS = ("sync_before_reduce", "sync_after_reduce", "sync_before_allgather", "sync_after_allgather")
_CONFIG = SimpleNamespace(**dict.fromkeys((*_SWITCHES, *_SYNCS), False), free_activation_threshold=1 << 40)
_CARRIED = ("float32", "float16", "float64", "bfloat16", "int64", "int32", "int8")
_initialised: dict[str, dist.ProcessGroup] = {}
_numbers = count()
_SOURCE = "https://github.com/deepspeedai/DeepSpeed/tree/master/csrc/compile"


def shard(full: torch.Tensor, rank: int, world_size: int) -> torch.Tensor:
    """Part `rank` of `world_size` equal parts of the flattened parameter, the last ones padded with zeros."""
    length = -(-full.numel() // world_size)
    padded = full.new_zeros(length * world_size)
    padded[: full.numel()] = full.reshape(-1)
    return padded[rank * length : (rank + 1) * length].clone()


def policy(case: Case) -> tuple[str, str, str]:
    """What the source takes: seven dtypes, and ranks whose lengths agree."""
    if other := [p.dtype for p in case.parameters if p.dtype not in _CARRIED]:
        return "unspecified", f"get_nccl_data_type knows no {other[0]}", _SOURCE
    if case.divergences and case.divergences[0].kind in ("id", "order", "extra", "missing", "refuses"):
        return "unspecified", "parameters are registered one by one, each with a collective", _SOURCE
    return "accept", "parameters are padded to even shards", _SOURCE


class Session:
    """The parameters of one group; see `shardproof.protocol.Session`."""

    def __init__(self, group: dist.ProcessGroup, device: torch.device, layout: Mapping[str, Any]) -> None:  # noqa: ARG002  # it has one layout
        """All state is the process's own: a session drops the graph of the last one, and counts parameters on."""
        if device.type != "cuda":
            raise RuntimeError(f"DeepCompile's operations run on CUDA alone, not on {device}: --device cuda")
        self._native, self._ops = DeepCompileBuilder().load(), torch.ops.dc
        # `cleanup` waits for the other ranks in NCCL, and what it frees is little. Some may come from another group.
        comes = torch.tensor([_initialised.get("group") is not group], dtype=torch.int32, device=device)
        dist.all_reduce(comes, dist.ReduceOp.MAX, group=group)
        if comes.item():
            self._native.init(group, _CONFIG, _BUCKET)
            _initialised["group"] = group
        self._native.reset()
        self._size = group.size()
        self._numbers: dict[str, int] = {}
        self._shards: dict[int, torch.Tensor] = {}
        self._reduced: dict[int, torch.Tensor] = {}

    def register(self, specs: Sequence[Spec]) -> None:
        """Each with its shard and the buffer that its reduced gradient is to lie in."""
        for spec in specs:
            if spec.tied_to is not None:
                self._numbers[spec.id] = self._numbers[spec.tied_to]
                continue
            own = spec.shard
            assert own is not None  # `shard` above makes it
            number, buffer = next(_numbers), torch.zeros_like(own)
            self._native.register_z3_param(number, list(spec.shape), own, buffer, False, None)
            self._numbers[spec.id] = number
            self._shards[number], self._reduced[number] = own, buffer
        self._native.register_graph_z3(_GRAPH, list(self._shards))
        self._native.start_forward()

    def shard(self, id: str) -> torch.Tensor:
        """The shard as it was given."""
        return self._shards[self._numbers[id]]

    def gather(self, id: str) -> torch.Tensor:
        """Gather on the operations' own stream, and let the current one wait."""
        number = self._numbers[id]
        started = self._ops.allgather_param(self._shards[number], _GRAPH, number)
        gathered: torch.Tensor = self._ops.wait_allgather(started, _GRAPH, number)
        return gathered

    def prefetch(self, ids: Sequence[str]) -> None:
        """One group of collectives."""
        numbers = list(dict.fromkeys(self._numbers[id] for id in ids))
        self._ops.prefetch_params_fused(_GRAPH, [self._shards[number] for number in numbers], numbers)

    def wait(self, id: str) -> torch.Tensor:
        """As `gather`, of what was prefetched."""
        return self.gather(id)

    def release(self, id: str) -> None:
        """The last user is done."""
        number = self._numbers[id]
        self._ops.release_param(self._shards[number], _GRAPH, number, 1)

    def update(self, id: str, shard: torch.Tensor) -> None:
        """Write as an optimizer does, before the end of a backward that is followed by a step."""
        self.shard(id).copy_(shard)
        self._backward({})

    def reduce(self, grads: Mapping[str, torch.Tensor], reduction: str) -> Mapping[str, torch.Tensor]:
        """Gradients are averaged; for a sum they are sent that many times as large."""
        self._backward({id: grad * self._size if reduction == "sum" else grad for id, grad in grads.items()})
        return {id: self._reduced[self._numbers[id]].clone() for id in grads}

    def _backward(self, grads: Mapping[str, torch.Tensor]) -> None:
        self._native.start_backward(True)
        for id, grad in grads.items():
            self._ops.reduce_grad(grad, _GRAPH, self._numbers[id])
        self._ops.end_backward(list(self._shards.values()), _GRAPH, False)
