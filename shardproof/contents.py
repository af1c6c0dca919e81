"""What a case's tensors hold, said once for the ranks and for the model.

The key of a parameter's contents is its id and the operation that wrote it, so that no two generations agree and a
stale result cannot pass for a fresh one.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from reference import exact_bound
from shardproof.case import Case, Operation, Parameter
from shardproof.values import Bits, integers, moved

REGISTERED = "registered"


def full_bits(case: Case, parameter: Parameter, written_by: int | str = REGISTERED) -> Bits:
    """The whole parameter's words in row-major order, as operation number `written_by` left them."""
    key = f"{parameter.tied_to or parameter.id}#{written_by}"
    return moved(case.seed, key, parameter.shape, parameter.dtype)


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
