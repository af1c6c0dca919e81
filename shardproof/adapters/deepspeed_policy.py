"""What DeepSpeed's own documentation says that ZeRO-3 takes and refuses; it promises none of our laws."""

from __future__ import annotations

import torch
import torch.distributed as dist

from shardproof.backends import CARRIES
from shardproof.case import Case, Parameter

Answer = tuple[str, str, str]

ZERO3 = "https://deepspeed.readthedocs.io/en/latest/zero3.html"
_AUTOGRAD = "https://docs.pytorch.org/docs/stable/notes/autograd.html"


def policy(case: Case) -> Answer:
    """accept, refuse or unspecified; why; and where DeepSpeed says so."""
    if case.divergences:
        return "unspecified", "zero.Init assumes that all ranks construct the same module and compares nothing", ZERO3
    for parameter in case.parameters:
        answer = _of_parameter(parameter)
        if answer is not None:
            return answer
    return "accept", "zero.Init partitions a module that exists already, whatever its parameters are", ZERO3


def _of_parameter(p: Parameter) -> Answer | None:
    backend = str(dist.get_backend())
    known: torch.dtype = getattr(torch, p.dtype)
    if not p.frozen and not (known.is_floating_point or known.is_complex):
        return "refuse", f"{p.id} is {p.dtype}; only floating point and complex numbers have gradients", _AUTOGRAD
    if p.dtype not in CARRIES.get(backend, {p.dtype}):
        return "unspecified", f"{backend} does not carry {p.dtype}", ""
    return None
