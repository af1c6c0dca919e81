"""In which dtype something travels.

Gathering moves bits, so a dtype that gloo or NCCL has no name for goes as bytes: a view, never a copy. Reducing adds,
so such a dtype is widened to one in which the backends add, and narrowed again in the end.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

_ADDED = frozenset(
    (
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int8,
        torch.uint8,
        torch.complex64,
        torch.complex128,
    )
)
_MOVED = _ADDED | {torch.bool}

_WIDENED = {
    torch.int16: torch.int32,
    torch.uint16: torch.int32,
    torch.uint32: torch.int64,
    torch.float8_e4m3fn: torch.float32,
    torch.float8_e5m2: torch.float32,
    torch.float8_e4m3fnuz: torch.float32,
    torch.float8_e5m2fnuz: torch.float32,
}


def as_moved(tensor: torch.Tensor) -> torch.Tensor:
    """The 1-D tensor as a gather sends it: itself, its pairs of reals, or its bytes."""
    if tensor.is_complex():
        return as_added(tensor)
    return tensor if tensor.dtype in _MOVED else tensor.view(torch.uint8)


def as_one_dtype(tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """The 1-D tensors as one coalesced gather moves them: themselves, or all as bytes where dtypes differ."""
    if len({tensor.dtype for tensor in tensors}) <= 1:
        return tuple(tensors)
    return tuple(tensor.view(torch.uint8) for tensor in tensors)


def added_in(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which gradients of `dtype` are added. Raises TypeError where there is none (bool, uint64)."""
    if dtype in _ADDED:
        return dtype
    if dtype not in _WIDENED:
        raise TypeError(f"gradients of {dtype} cannot be reduced, expected float, complex or integers (no uint64)")
    return _WIDENED[dtype]


def as_added(tensor: torch.Tensor) -> torch.Tensor:
    """The 1-D tensor as a reduction sends it: complex numbers as pairs, which NCCL cannot add otherwise."""
    return torch.view_as_real(tensor).view(-1) if tensor.is_complex() else tensor
