"""What DTensor's own documentation says that it takes and refuses; it promises none of our laws."""

from __future__ import annotations

import torch

from shardproof.case import Case

_DTENSOR = "https://docs.pytorch.org/docs/stable/distributed.tensor.html"
_AUTOGRAD = "https://docs.pytorch.org/docs/stable/notes/autograd.html"


def policy(case: Case) -> tuple[str, str, str]:
    """accept, refuse or unspecified; why; and where torch says so."""
    if case.divergences:
        return "unspecified", "distribute_tensor takes rank 0's values and compares nothing", _DTENSOR
    steps = any(operation.kind in ("clip", "step") for operation in case.program)
    for p in case.parameters:
        known: torch.dtype = getattr(torch, p.dtype)
        if not p.shape:
            return "unspecified", f"{p.id} has no dimension to shard", _DTENSOR
        if not p.frozen and not (known.is_floating_point or known.is_complex):
            return "refuse", f"{p.id} is {p.dtype}; only floating point and complex numbers have gradients", _AUTOGRAD
        if steps and not p.frozen and p.grad_dtype not in (None, p.dtype):
            return "unspecified", f"the gradient of {p.id} is to be {p.grad_dtype}; autograd gives {p.dtype}", _AUTOGRAD
    return "accept", "a dimension that does not divide evenly is cut as torch.chunk cuts it", _DTENSOR
