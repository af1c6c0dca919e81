"""The named program that harness costs are measured on: register, gather twice, update, gather, release."""

from __future__ import annotations

from typing import Any

import torch

import gpu_impl
from shardproof.case import Case, Group, Operation, Parameter

SHAPE = (7, 3)
STEPS = ("register", "gather", "gather", "update", "gather", "release")


def case(world_size: int = 2) -> Case:
    """The program as a case: one float32 parameter of 21 elements, which two ranks cannot share evenly."""
    return Case(
        groups=(Group("main", tuple(range(world_size))),),
        parameters=(Parameter("weight", SHAPE),),
        program=tuple(Operation(kind) for kind in STEPS),  # type: ignore[arg-type]  # the kinds above
    )


class _Spec:
    def __init__(self, full: torch.Tensor, shard: torch.Tensor) -> None:
        self.id, self.shape, self.dtype, self.full, self.shard = "weight", SHAPE, full.dtype, full, shard
        self.grad, self.requires_grad, self.tied_to, self.comm_dtype = None, True, None, None


def by_hand(rank: int, world_size: int, group: Any) -> None:
    """The same program as a hand-written distributed test does it, compared with the expected values on the rank."""
    session = gpu_impl.Session(group, torch.device("cpu"), {"kind": "flat_padded", "alignment": 1})
    first, second = (torch.arange(21.0).reshape(SHAPE) + shift for shift in (1, 100))
    session.register([_Spec(first, gpu_impl.shard(first, rank, world_size))])
    for _ in range(2):
        assert torch.equal(session.gather("weight"), first)
    session.update("weight", gpu_impl.shard(second, rank, world_size))
    assert torch.equal(session.gather("weight"), second)
    session.release("weight")
