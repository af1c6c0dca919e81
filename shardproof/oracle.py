"""The model runs the program: what every step must show, decided from the case alone.

Contents are followed as full tensors. A gather must show the full tensor; a reduced shard is what the model's
reduce-scatter gives, padding as zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from invariants import Expected, Subject
from reference import encode, reduce_scatter
from shardproof.backends import CARRIES, REDUCES
from shardproof.case import Case, Divergence, Operation, Parameter
from shardproof.contents import REGISTERED, full_bits, grad_dtype, gradient, with_gradient
from shardproof.layouts import layouts_of
from shardproof.values import as_bytes

Answer = tuple[str, str, str]


def subjects(case: Case) -> dict[str, Subject]:
    """Every parameter with the model's layout at every world size that the program uses."""
    sizes = {len(case.group(operation.group).ranks) for operation in case.program} | {case.world_size}
    layouts = {size: layouts_of(case.layout, case.parameters, size) for size in sizes}
    return {
        p.id: Subject(
            id=p.id,
            shape=p.shape,
            dtype=p.dtype,
            layouts={size: layouts[size][p.id] for size in sizes},
            frozen=p.frozen,
            tied_to=p.tied_to,
            grad_dtype=grad_dtype(p),
            grad_buffer=p.grad_buffer,
        )
        for p in case.parameters
    }


def expectations(case: Case, policy: Sequence[str] | None, backend: str) -> tuple[Expected, ...]:
    """One Expected a step. `policy` is the implementation's own (answer, reason, link), None where it has none."""
    model = _Model(case, policy, backend)
    return tuple(model.expect(index, operation) for index, operation in enumerate(case.program))


def wanted(case: Case, policy: Sequence[str] | None, backend: str) -> Answer:
    """Whether registration must be accepted: (answer, reason, link).

    What the backend can do is asked first, then how ranks differ, then the implementation's policy.
    """
    if policy is not None and policy[0] == "unspecified":
        return "unspecified", policy[1], policy[2]
    for divergence in case.divergences:
        reason = _differs(case, divergence)
        if reason:
            return "refuse", reason, ""
    if policy is not None:
        return policy[0], policy[1], policy[2]
    for parameter in case.parameters:
        if parameter.dtype not in CARRIES[backend]:
            return "unspecified", f"{backend} does not carry {parameter.dtype}", ""
    kind = case.layout.kind.replace("_", " ")
    return "accept", f"{kind}, every numel and stride is accepted where nothing else is said", ""


def _differs(case: Case, divergence: Divergence) -> str:
    """How the diverging rank differs for real, in words; empty where the divergence changes nothing."""
    if case.world_size == 1 and divergence.kind not in ("refuses", "shard_numel"):
        return ""
    who = f"rank {divergence.rank}"
    if divergence.kind == "order":
        return f"{who} registers in another order" if len(case.parameters) > 1 else ""
    if divergence.kind == "refuses":
        return f"{who} cannot provide its shard"
    if divergence.kind == "extra":
        return f"{who} registers one parameter more"
    parameter = next((p for p in case.parameters if p.id == divergence.parameter), None)
    if parameter is None:
        return ""
    if divergence.kind == "missing":
        return f"{who} does not register {parameter.id}"
    if divergence.kind == "shard_numel":
        return f"{who} stores {divergence.value:+} elements for {parameter.id}" if divergence.value else ""
    own = {"shape": parameter.shape, "dtype": parameter.dtype, "id": parameter.id}[divergence.kind]
    return f"{who} has {divergence.kind} {divergence.value} for {parameter.id}" if divergence.value != own else ""


@dataclass(slots=True)
class _Model:
    case: Case
    policy: Sequence[str] | None
    backend: str
    written: dict[str, int | str] = field(default_factory=dict)
    contents: dict[tuple[str, int | str], bytes] = field(default_factory=dict)  # of every generation asked for
    saved: dict[str, int | str] = field(default_factory=dict)
    pending: dict[str, list[int]] = field(default_factory=dict)
    reduced: dict[str, npt.NDArray[np.int64]] = field(default_factory=dict)

    def expect(self, index: int, operation: Operation) -> Expected:
        handler = _HANDLERS.get(operation.kind)
        return handler(self, index, operation) if handler else Expected()

    def bits(self, ids: Sequence[str]) -> dict[str, bytes]:
        found = {}
        for id in ids:
            parameter = self.case.parameter(id)
            root = parameter.tied_to or id
            key = root, self.written.get(root, REGISTERED)
            if key not in self.contents:
                self.contents[key] = as_bytes(full_bits(self.case, parameter, key[1]))
            found[id] = self.contents[key]
        return found


def _register(model: _Model, index: int, operation: Operation) -> Expected:  # noqa: ARG001  # every handler's form
    answer, reason, link = wanted(model.case, model.policy, model.backend)
    return Expected(wanted=answer, reason=reason, link=link)  # type: ignore[arg-type]  # one of the three words


def _gather(model: _Model, index: int, operation: Operation) -> Expected:  # noqa: ARG001  # every handler's form
    answer, reason, link = wanted(model.case, model.policy, model.backend)
    ids = model.case.acted_on(operation)
    return Expected(wanted=answer, reason=reason, link=link, results=model.bits(ids))  # type: ignore[arg-type]  # as above


def _update(model: _Model, index: int, operation: Operation) -> Expected:
    for id in model.case.acted_on(operation):
        model.written[model.case.parameter(id).tied_to or id] = index
    return Expected()


def _accumulate(model: _Model, index: int, operation: Operation) -> Expected:
    for parameter in with_gradient(model.case, operation):
        model.pending.setdefault(parameter.id, []).append(index)
    return Expected()


def _reduce(model: _Model, index: int, operation: Operation) -> Expected:
    case, size = model.case, model.case.world_size
    per_rank: list[dict[str, bytes]] = [{} for _ in range(size)]
    unspecified = ""
    model.reduced = {}
    layouts = layouts_of(case.layout, case.parameters, size)
    for parameter in with_gradient(case, operation):
        rounds = [*model.pending.pop(parameter.id, []), index]
        totals = [_total(case, parameter, rounds, rank) for rank in range(size)]
        shards = reduce_scatter(totals, layouts[parameter.id], operation.reduction)
        model.reduced[parameter.id] = sum_of(totals) // (size if operation.reduction == "mean" else 1)
        for rank, shard in enumerate(shards):
            per_rank[rank][parameter.id] = as_bytes(encode(shard.astype(np.int64), grad_dtype(parameter)))
        if (parameter.comm_dtype or grad_dtype(parameter)) not in REDUCES[model.backend]:
            unspecified = f"{model.backend} does not reduce {parameter.comm_dtype or grad_dtype(parameter)}"
    return Expected(wanted="unspecified" if unspecified else "accept", reason=unspecified, per_rank=tuple(per_rank))


def sum_of(totals: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """The element-wise sum over ranks."""
    added: npt.NDArray[np.int64] = np.add.reduce(list(totals))
    return added


def _total(case: Case, parameter: Parameter, rounds: Sequence[int], rank: int) -> npt.NDArray[np.int64]:
    flat = sum_of([gradient(case, parameter, index, rank) for index in rounds])
    return flat.reshape(parameter.shape)


def _norm(model: _Model, index: int, operation: Operation) -> Expected:  # noqa: ARG001  # every handler's form
    # Python's integers: the sum of squares is exact whatever its size.
    squares = sum(int(value) ** 2 for total in model.reduced.values() for value in total.ravel())
    return Expected(scalar=math.sqrt(squares))


def _save(model: _Model, index: int, operation: Operation) -> Expected:  # noqa: ARG001  # every handler's form
    model.saved = dict(model.written)
    return Expected(results=model.bits([p.id for p in model.case.parameters]))


def _load(model: _Model, index: int, operation: Operation) -> Expected:  # noqa: ARG001  # every handler's form
    model.written = dict(model.saved)
    return Expected()


_HANDLERS: Mapping[str, Callable[[_Model, int, Operation], Expected]] = {
    "register": _register,
    "gather": _gather,
    "wait": _gather,
    "update": _update,
    "accumulate": _accumulate,
    "reduce": _reduce,
    "norm": _norm,
    "save": _save,
    "load": _load,
}
