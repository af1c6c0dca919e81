"""What FSDP2's own documentation says that it takes and refuses; it promises none of our laws."""

from __future__ import annotations

import torch

from shardproof.case import Case, Parameter

Answer = tuple[str, str, str]

FULLY_SHARD = "https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html"
_AUTOGRAD = "https://docs.pytorch.org/docs/stable/notes/autograd.html"
_PULL = "https://github.com/pytorch/pytorch/pull"


def policy(case: Case) -> Answer:
    """accept, refuse or unspecified; why; and where FSDP2 says so."""
    if case.divergences:
        return "unspecified", "FSDP2 assumes that all ranks shard the same module and compares nothing", FULLY_SHARD
    for ask in (_refused, _unspecified):
        for parameter in case.parameters:
            answer = ask(case, parameter)
            if answer is not None:
                return answer
    return "accept", "dim 0 is cut as torch.chunk cuts it, evenly or not", FULLY_SHARD


def _refused(case: Case, p: Parameter) -> Answer | None:
    dim = case.layout.dim
    if not p.shape:
        return "refuse", f"{p.id} is a scalar", f"{_PULL}/132934"
    if dim and p.shape[dim] % _shards(case, case.world_size):
        return "refuse", f"dim {dim} of {p.id} does not divide evenly; only dim 0 need not", FULLY_SHARD
    if not _contiguous(p):
        return "refuse", f"{p.id} is not contiguous", f"{_PULL}/137000"
    if not p.frozen and not _has_gradients(p.dtype):
        return "refuse", f"{p.id} is {p.dtype}; only floating point and complex numbers have gradients", _AUTOGRAD
    return None


def _unspecified(case: Case, p: Parameter) -> Answer | None:
    for size in {len(case.group(operation.group).ranks) for operation in case.program}:
        if case.layout.dim and p.shape[case.layout.dim] % _shards(case, size):
            return "unspecified", f"{p.id} is refused only where it is loaded, over {size} ranks", FULLY_SHARD
    reduces = any(operation.kind in ("accumulate", "reduce") for operation in case.program)
    if reduces and not p.frozen and p.grad_dtype not in (None, p.dtype):
        return "unspecified", f"the gradient of {p.id} is to be {p.grad_dtype}; autograd gives {p.dtype}", _AUTOGRAD
    return None


def _shards(case: Case, world_size: int) -> int:
    """Over how many ranks a parameter is cut: those of a group, where groups replicate."""
    return case.layout.group_size or world_size


def _contiguous(p: Parameter) -> bool:
    """As torch says it: strides of dims of size 1, and of a tensor without elements, do not count."""
    if p.strides is None:
        return True
    return torch.empty_strided(p.shape, p.strides, device="meta").is_contiguous()


def _has_gradients(dtype: str) -> bool:
    known: torch.dtype = getattr(torch, dtype)
    return known.is_floating_point or known.is_complex
