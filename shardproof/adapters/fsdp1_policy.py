"""What FSDP1's own documentation and messages say that it takes and refuses; it promises none of our laws."""

from __future__ import annotations

import torch

from shardproof.case import Case, Parameter

Answer = tuple[str, str, str]

FSDP1 = "https://docs.pytorch.org/docs/stable/fsdp.html"
_AUTOGRAD = "https://docs.pytorch.org/docs/stable/notes/autograd.html"
_FLAT = "https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/fsdp/_flat_param.py"


def policy(case: Case) -> Answer:
    """accept, refuse or unspecified; why; and where FSDP1 says so."""
    if case.divergences:
        return "unspecified", "FSDP1 assumes that all ranks wrap the same module and compares nothing", FSDP1
    for parameter in case.parameters:
        answer = _refused(parameter)
        if answer is not None:
            return answer
    reduces = any(operation.kind in ("accumulate", "reduce") for operation in case.program)
    for p in case.parameters:
        # What it does with gaps (findings/fsdp1_gapped_parameter.py) has no documented promise to be judged by.
        if p.strides is not None:
            return (
                "unspecified",
                f"{p.id} has strides; a flat parameter keeps the order of memory, gaps included",
                _FLAT,
            )
        if reduces and not p.frozen and p.grad_dtype not in (None, p.dtype):
            return "unspecified", f"the gradient of {p.id} is to be {p.grad_dtype}; autograd gives {p.dtype}", _AUTOGRAD
    return "accept", "a flat parameter is padded to a multiple of the world size", FSDP1


def _refused(p: Parameter) -> Answer | None:
    known: torch.dtype = getattr(torch, p.dtype)
    if not known.is_floating_point:
        return "refuse", f"{p.id} is {p.dtype}; only floating point is flattened", _FLAT
    if not p.shape:
        return "refuse", f"{p.id} is a scalar", _FLAT
    return None
