"""A small exact model over the registered parameters, and a plain optimizer step on their shards.

On rank r, with input `value`, element i (row-major) of every floating parameter w meets

    x[r, i] = (i + 3 * r + 5 * value) mod 7 - 3

and the loss, summed over ranks, registered ids and elements, is w*x + w*w/2. So the gradient, summed over ranks, is
sum over r of (w + x[r]), once for each id that is tied to the parameter. Both are exact in float64 for integers.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gpu_impl.gathering import gather, invalidate, land
from gpu_impl.parameters import Parameter
from gpu_impl.reducing import norm, reduce
from gpu_impl.seam import all_reduce
from gpu_impl.state import State
from gpu_impl.transport import added_in

STEPS = "steps"


@dataclass(frozen=True, slots=True)
class Tape:
    """One forward's local loss and the gathered parameters it was computed from."""

    loss: torch.Tensor
    leaves: dict[Parameter, torch.Tensor]


def forward(state: State, value: int) -> float:
    """Gather every parameter, run the model on this rank's input, and return the loss summed over ranks."""
    floating = {id: parameter for id, parameter in state.names.items() if parameter.dtype.is_floating_point}
    loss = torch.zeros((), dtype=torch.float64, device=state.place.device)
    leaves: dict[Parameter, torch.Tensor] = {}
    with torch.inference_mode(False), torch.enable_grad():
        for id, parameter in floating.items():
            if parameter not in leaves:
                leaves[parameter] = gather(state, id).detach().requires_grad_(parameter.trainable)
            w = leaves[parameter].reshape(-1).to(torch.float64)
            positions = torch.arange(parameter.numel, device=state.place.device)
            x = (positions + 3 * state.place.rank + 5 * value) % 7 - 3
            loss = loss + (w * x + 0.5 * w * w).sum()
    state.tape = Tape(loss, {parameter: leaf for parameter, leaf in leaves.items() if leaf.requires_grad})
    total = loss.detach().clone()
    all_reduce(total, state.group)
    return total.item()


def backward(state: State) -> dict[str, torch.Tensor]:
    """This rank's shards of the last forward's gradients, summed over ranks with what was accumulated, padding zero.

    By the ids that parameters were registered under first. Raises RuntimeError without a forward.
    """
    tape: Tape | None = state.tape
    if tape is None:
        raise RuntimeError("backward without a forward before it")
    state.tape = None
    if not tape.leaves:
        return {}
    grads = torch.autograd.grad(tape.loss, tuple(tape.leaves.values()))
    return reduce(state, {parameter.id: grad for parameter, grad in zip(tape.leaves, grads, strict=True)}, "sum")


def clip(state: State, bound: float) -> float:
    """Scale the reduced gradients by bound / norm where their norm is above it; returns the norm before.

    What reduce returned stays as it was. A norm that is no number scales nothing. Raises ValueError for a negative
    bound, TypeError for gradients that are no floats.
    """
    if not bound >= 0:
        raise ValueError(f"bound is {bound}, expected at least 0")
    _check_floats(state, "clip")
    before = norm(state)
    if before > bound:
        state.reduced = {
            parameter: (shard.to(added_in(shard.dtype)) * (bound / before)).to(shard.dtype)
            for parameter, shard in state.reduced.items()
        }
    return before


def step(state: State, learning_rate: float) -> None:
    """shard -= learning_rate * reduced gradient, for what was reduced last; padding is left as it is.

    Computed in float32 where the parameter is narrower, rounded once. Counts itself in the scalar "steps". Raises
    RuntimeError where nothing was reduced, TypeError for parameters that are no floats.
    """
    if not state.reduced:
        raise RuntimeError("step without reduced gradients, expected a reduce or backward before it")
    _check_floats(state, "step")
    with torch.no_grad():
        for parameter, gradient in state.reduced.items():
            owned = parameter.owned(state.place.rank)
            land(state, parameter)
            state.order.writing(parameter.trace)
            shard = parameter.shard[:owned]
            wide = torch.promote_types(added_in(parameter.dtype), torch.float32)
            shard.copy_(shard.to(wide) - learning_rate * gradient[:owned].to(wide))
            invalidate(state, parameter)
    state.scalars[STEPS] = state.scalars.get(STEPS, 0) + 1


def _check_floats(state: State, operation: str) -> None:
    for parameter, gradient in state.reduced.items():
        for dtype in (parameter.dtype, gradient.dtype):
            if not (dtype.is_floating_point or dtype.is_complex):
                raise TypeError(f'{operation} of "{parameter.id}": {dtype}, expected a float or complex dtype')
