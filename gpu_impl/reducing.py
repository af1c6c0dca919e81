"""Gradients: added up locally, reduce-scattered over ranks, measured.

Micro-gradients are added straight in the padded send buffer, in their own dtype (`transport.added_in`); its padding is
zero, so it is neutral in the sum and zero in the result. What travels is converted to the parameter's `comm_dtype`
where one was registered, and the result comes back in the gradient's dtype.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from gpu_impl.buffers import Buffer
from gpu_impl.parameters import Parameter
from gpu_impl.seam import all_reduce, reduce_scatter
from gpu_impl.state import State
from gpu_impl.transport import added_in, as_added

# What one reduction counts: parameters, and elements and bytes that this rank sends, padding included.
COUNTED = ("parameters", "elements", "bytes")


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """Gradients of `dtype` added up in `buffer`, W*p elements, padding zero."""

    buffer: Buffer
    dtype: torch.dtype


def accumulate(state: State, grads: Mapping[str, torch.Tensor]) -> None:
    """Add full-size local gradients to what the next reduce sends; a tied id's go to the parameter it is tied to.

    Raises TypeError or ValueError, before anything is added, where one does not fit.
    """
    checked = [(_checked(state, id, grad), grad) for id, grad in grads.items()]
    with torch.no_grad():
        for parameter, grad in checked:
            _add(state, parameter, grad)


def reduce(state: State, grads: Mapping[str, torch.Tensor], reduction: str) -> dict[str, torch.Tensor]:
    """This rank's shards of the summed or averaged gradients, padding zero; an integer mean is rounded down.

    Reduces the parameters that `grads` names, or all that have accumulated gradients where it names none. Every rank
    must name the same, in gradients of the same dtype. If a collective fails, `grads` count as accumulated and the
    next reduce sends them. Raises as `accumulate`.
    """
    if reduction not in ("sum", "mean"):
        raise ValueError(f"reduction is {reduction!r}, expected 'sum' or 'mean'")
    accumulate(state, grads)
    chosen = state.find_all(grads or [parameter.id for parameter in state.pending])
    state.counters = dict.fromkeys(COUNTED, 0)
    with torch.no_grad():
        reduced = {parameter: _reduced(state, parameter, reduction == "mean") for parameter in chosen}
    for parameter in chosen:
        state.pool.give(state.pending.pop(parameter).buffer)
    state.reduced = reduced
    results = {parameter.id: shard for parameter, shard in reduced.items()}
    return results | {id: reduced[state.find(id)] for id in grads}


def norm(state: State) -> float:
    """The 2-norm of the gradients reduced last, over all ranks, in float64. Padding is left out; 0.0 for none."""
    squares = torch.zeros((), dtype=torch.float64, device=state.place.device)
    for parameter, shard in state.reduced.items():
        own = shard[: parameter.owned(state.place.rank)]
        squares += as_added(own).to(torch.float64).square().sum()
    all_reduce(squares, state.group)
    return math.sqrt(squares.item())


def _checked(state: State, id: str, grad: torch.Tensor) -> Parameter:
    parameter = state.find(id)
    if not parameter.trainable:
        raise ValueError(f'parameter "{id}" is frozen, expected no gradient for it')
    if not isinstance(grad, torch.Tensor):
        raise TypeError(f'gradient of "{id}" is {type(grad).__name__}, expected a torch.Tensor')
    if tuple(grad.shape) != parameter.shape:
        raise ValueError(f'gradient of "{id}" has shape {tuple(grad.shape)}, expected {parameter.shape}')
    wire = parameter.comm_dtype or grad.dtype
    if not torch.can_cast(added_in(grad.dtype), added_in(wire)):
        raise TypeError(f'gradient of "{id}" is {grad.dtype}, expected one that can be sent as {wire}')
    pending = state.pending.get(parameter)
    if pending is not None and pending.dtype != grad.dtype:
        raise TypeError(f'gradient of "{id}" is {grad.dtype}, expected {pending.dtype} as accumulated before')
    return parameter


def _add(state: State, parameter: Parameter, grad: torch.Tensor) -> None:
    numel, _, device = parameter.key
    pending = state.pending.get(parameter)
    if pending is None:
        pending = Pending(state.pool.take((numel, added_in(grad.dtype), device)), grad.dtype)
        state.pending[parameter] = pending
        state.order.writing(pending.buffer.trace)
        _elements(pending, parameter).copy_(grad)
        pending.buffer.memory[parameter.numel :].zero_()
    else:
        state.order.writing(pending.buffer.trace)
        _elements(pending, parameter).add_(grad.to(pending.buffer.memory.dtype))
    state.order.wrote(pending.buffer.trace)


def _elements(pending: Pending, parameter: Parameter) -> torch.Tensor:
    """The part of a send buffer that is no padding, in the true shape."""
    return pending.buffer.memory.as_strided(parameter.shape, parameter.strides)


def _reduced(state: State, parameter: Parameter, mean: bool) -> torch.Tensor:
    pending: Pending = state.pending[parameter]
    state.order.reading(pending.buffer.trace, pending.buffer.memory)
    whole = pending.buffer.receive.view(pending.buffer.memory.dtype)
    send = whole.to(added_in(parameter.comm_dtype or pending.dtype))
    shard = send.new_empty(parameter.shard.numel())
    if parameter.numel:
        reduce_scatter(as_added(shard), as_added(send), state.group)
    for name, more in zip(COUNTED, (1, send.numel(), send.nbytes), strict=True):
        state.counters[name] += more
    if mean:
        exact = not (shard.is_floating_point() or shard.is_complex())
        # By a tensor on the device: CUDA divides by a number through its reciprocal, one rounding off at 7 ranks.
        divisor = shard.new_full((), state.place.world_size)
        shard.div_(divisor, rounding_mode="floor" if exact else None)
    return shard.to(pending.dtype)
