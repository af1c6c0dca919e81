"""What a case's tensors hold, said once for the ranks and for the model.

The key of a parameter's contents is its id and the operation that wrote it, so that no two generations agree and a
stale result cannot pass for a fresh one. What a model is trained on must be numbers, so that in a program which trains
floating parameters hold small integers in place of bit patterns.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from reference import DTYPES, encode, exact_bound
from shardproof.case import Case, Operation, OperationKind, Parameter
from shardproof.values import Bits, integers, moved

REGISTERED = "registered"
TRAINING: tuple[OperationKind, ...] = ("forward", "backward", "clip", "step")


def full_bits(case: Case, parameter: Parameter, written_by: int | str = REGISTERED) -> Bits:
    """The whole parameter's words in row-major order, as operation number `written_by` left them."""
    key = f"{parameter.tied_to or parameter.id}#{written_by}"
    if trains(case) and in_model(parameter):
        return encode(_weights(case.seed, key, parameter), parameter.dtype)
    return moved(case.seed, key, parameter.shape, parameter.dtype)


def trains(case: Case) -> bool:
    """Whether the program calculates with the parameters' contents."""
    return any(operation.kind in TRAINING for operation in case.program)


def learning_rate(operation: Operation) -> float:
    """A step's: 2 ** -value, which keeps the product with a gradient exact; 0 would hide a step that does nothing."""
    return 2.0 ** -max(operation.value, 1)


def in_model(parameter: Parameter) -> bool:
    """Whether the model that a session trains has a place for the parameter: it is of real floating numbers."""
    return DTYPES[parameter.dtype].kind == "float"


def _weights(seed: int, key: str, parameter: Parameter) -> npt.NDArray[np.int64]:
    """Integers up to 127, so that float32 has room for what three steps add behind the point, or up to what leaves
    room in narrower dtypes for sums over eight ranks and three tied ids of the weight and a small input.
    """
    narrow = min(parameter.dtype, parameter.comm_dtype or parameter.dtype, key=exact_bound)
    room = min(exact_bound(narrow), 1 << 20)
    parts = room // max(1, min(127, room // 36))
    return integers(seed, key, 0, parameter.numel, narrow, parts=parts)


def gradient(case: Case, parameter: Parameter, index: int, rank: int) -> npt.NDArray[np.int64]:
    """Integer gradient of operation number `index` on group rank `rank`, flat, one value an element."""
    dtypes = {grad_dtype(parameter), parameter.comm_dtype or parameter.dtype, parameter.dtype}
    narrow = min(dtypes, key=exact_bound)
    parts, multiple = _exactness(case)
    key = f"{parameter.id}/gradient#{index}"
    return integers(case.seed, key, rank, parameter.numel, narrow, parts=parts, multiple=multiple)


def grad_dtype(parameter: Parameter) -> str:
    """The dtype a parameter's gradient has."""
    return parameter.grad_dtype or parameter.dtype


def with_gradient(case: Case, operation: Operation) -> Iterable[Parameter]:
    """The parameters for which an accumulate or a reduce carries a gradient: not frozen, and each tied set once."""
    for id in case.acted_on(operation):
        parameter = case.parameter(id)
        if not parameter.frozen and parameter.tied_to is None:
            yield parameter


def _exactness(case: Case) -> tuple[int, int]:
    """How many contributions a reduced value may have, and the number each is a multiple of (for exact means)."""
    world_size = case.world_size
    rounds = 1 + sum(operation.kind == "accumulate" for operation in case.program)
    means = any(operation.reduction == "mean" for operation in case.program)
    return world_size * rounds, world_size if means else 1
