"""The model runs the program: what every step must show, decided from the case alone.

Contents are followed as full tensors. A gather must show the full tensor; a reduced shard is what the model's
reduce-scatter gives, padding as zeros. What training computes is said in `training_oracle`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from invariants import Expected, Subject
from reference import decode, encode, partition, reduce_scatter
from shardproof import training_oracle
from shardproof.backends import CARRIES, REDUCES
from shardproof.case import Case, Divergence, Operation, Parameter
from shardproof.contents import REGISTERED, full_bits, grad_dtype, gradient, in_model, learning_rate, with_gradient
from shardproof.layouts import layouts_of
from shardproof.training_oracle import Numbers, Summed, rounded
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

    What the backend can do is asked first, then whether the policy leaves the case open, then how ranks differ, then
    what else the policy says.
    """
    for parameter in case.parameters:
        if parameter.dtype not in CARRIES[backend]:
            return "unspecified", f"{backend} does not carry {parameter.dtype}", ""
    if policy is not None and policy[0] == "unspecified":
        return "unspecified", policy[1], policy[2]
    for divergence in case.divergences:
        reason = _differs(case, divergence)
        if reason:
            return "refuse", reason, ""
    if policy is not None:
        return policy[0], policy[1], policy[2]
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
    reduced: dict[str, Numbers] = field(default_factory=dict)
    # By root and generation: the numbers of weights in a case that trains; all generations that a root has had.
    weights: dict[tuple[str, int | str], Numbers] = field(default_factory=dict)
    generations: dict[str, list[int | str]] = field(default_factory=dict)
    input: int = 0

    def expect(self, index: int, operation: Operation) -> Expected:
        handler = _HANDLERS.get(operation.kind)
        return handler(self, index, operation) if handler else Expected()

    def bits(self, ids: Sequence[str]) -> dict[str, bytes]:
        found = {}
        for id in ids:
            generation = self.written.get(self.root(id), REGISTERED)
            if self.room(id) < math.inf:
                found[id] = self.bits_of(id, generation)
        return found

    def bits_of(self, id: str, generation: int | str) -> bytes:
        """What the parameter held as that operation left it."""
        key = self.root(id), generation
        if key not in self.contents:
            self.contents[key] = as_bytes(full_bits(self.case, self.case.parameter(id), generation))
        return self.contents[key]

    def root(self, id: str) -> str:
        """The id of the parameter whose memory this one uses."""
        return self.case.parameter(id).tied_to or id

    def room(self, id: str) -> float:
        """How far an element may be from the model's; only a step ever leaves any."""
        weights = self.weights.get((self.root(id), self.written.get(self.root(id), REGISTERED)))
        return weights.error if weights else 0.0

    def earlier(self, id: str) -> tuple[bytes, ...]:
        """What the parameter held before it was written last."""
        now = self.written.get(self.root(id), REGISTERED)
        generations = [g for g in (REGISTERED, *self.generations.get(self.root(id), ())) if g != now]
        return tuple(self.bits_of(id, generation) for generation in generations)

    def write(self, root: str, index: int) -> None:
        """The operation has written this parameter."""
        self.written[root] = index
        self.generations.setdefault(root, []).append(index)

    def shown(self, ids: Sequence[str], **other: Any) -> Expected:
        """What every rank must see of these parameters now."""
        room = {id: self.room(id) for id in ids if self.room(id)}
        earlier = {id: self.earlier(id) for id in ids if self.root(id) in self.generations}
        return Expected(results=self.bits(ids), room=room, earlier=earlier, **other)

    def size(self, operation: Operation) -> int:
        """Ranks that perform the operation."""
        return len(self.case.group(operation.group).ranks)

    def weight(self, id: str) -> Numbers:
        """The numbers of a parameter that is in the trained model."""
        root = self.root(id)
        key = root, self.written.get(root, REGISTERED)
        if key not in self.weights:
            parameter = self.case.parameter(root)
            values = decode(full_bits(self.case, parameter, key[1]), parameter.dtype)
            self.weights[key] = Numbers(values.reshape(parameter.shape))
        return self.weights[key]


def _register(model: _Model, index: int, operation: Operation) -> Expected:  # noqa: ARG001  # every handler's form
    answer, reason, link = wanted(model.case, model.policy, model.backend)
    return Expected(wanted=answer, reason=reason, link=link)  # type: ignore[arg-type]  # one of the three words


def _gather(model: _Model, index: int, operation: Operation) -> Expected:  # noqa: ARG001  # every handler's form
    answer, reason, link = wanted(model.case, model.policy, model.backend)
    ids = model.case.acted_on(operation)
    return model.shown(ids, wanted=answer, reason=reason, link=link)


def _update(model: _Model, index: int, operation: Operation) -> Expected:
    for root in {model.root(id) for id in model.case.acted_on(operation)}:
        model.write(root, index)
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
        total = sum_of(totals) // (size if operation.reduction == "mean" else 1)
        model.reduced[parameter.id] = Numbers(total.astype(np.float64))
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
    scalar, room = training_oracle.norm(model.reduced.values())
    return Expected(scalar=scalar, scalar_room=room)


def _save(model: _Model, index: int, operation: Operation) -> Expected:  # noqa: ARG001  # every handler's form
    model.saved = dict(model.written)
    return model.shown([p.id for p in model.case.parameters])


def _load(model: _Model, index: int, operation: Operation) -> Expected:  # noqa: ARG001  # every handler's form
    model.written = dict(model.saved)
    return Expected()


def _forward(model: _Model, index: int, operation: Operation) -> Expected:  # noqa: ARG001  # every handler's form
    model.input = operation.value
    weights = [model.weight(p.id) for p in model.case.parameters if in_model(p)]
    scalar, room = training_oracle.loss(weights, model.size(operation), operation.value)
    return Expected(scalar=scalar, scalar_room=room)


def _backward(model: _Model, index: int, operation: Operation) -> Expected:  # noqa: ARG001  # every handler's form
    """Gradients of every trained parameter, in its dtype; a gradient of another dtype cannot be added to them."""
    case, size = model.case, model.size(operation)
    model.reduced, unspecified = {}, "" if any(map(trained, case.parameters)) else "no parameter can be trained"
    per_rank: list[dict[str, bytes]] = [{} for _ in range(size)]
    layouts = layouts_of(case.layout, case.parameters, size)
    for parameter in filter(trained, case.parameters):
        rounds = model.pending.pop(parameter.id, []) if operation.group == "main" else []
        if (rounds and grad_dtype(parameter) != parameter.dtype) or parameter.dtype not in REDUCES[model.backend]:
            unspecified = f"gradients of {parameter.id} are not of its dtype {parameter.dtype}, or cannot be added up"
        part = Summed(
            weight=model.weight(parameter.id),
            own=[gradient(case, parameter, i, r).reshape(parameter.shape) for i in rounds for r in range(size)],
            uses=sum(model.root(p.id) == parameter.id for p in case.parameters),
            dtypes=(parameter.dtype, parameter.comm_dtype or parameter.dtype),
            rounds=len(rounds),
        )
        total = model.reduced[parameter.id] = training_oracle.gradient(part, size, model.input)
        for rank, shard in enumerate(partition(total.values, layouts[parameter.id])):
            if total.known:
                per_rank[rank][parameter.id] = as_bytes(rounded(shard, parameter.dtype))
    return Expected(
        wanted="unspecified" if unspecified else "accept",
        reason=unspecified,
        per_rank=tuple(per_rank),
        room={id: total.error for id, total in model.reduced.items() if total.error},
    )


def trained(parameter: Parameter) -> bool:
    """Whether a step changes the parameter: it is in the model, under its own id, and not frozen."""
    return in_model(parameter) and not parameter.frozen and parameter.tied_to is None


def _clip(model: _Model, index: int, operation: Operation) -> Expected:  # noqa: ARG001  # every handler's form
    open_ = _not_trained(model)
    if open_:
        return open_
    scalar, room = training_oracle.norm(model.reduced.values())
    seen, size = subjects(model.case), model.size(operation)
    model.reduced = training_oracle.clipped(model.reduced, float(operation.value), seen, size)
    return Expected(scalar=scalar, scalar_room=room)


def _step(model: _Model, index: int, operation: Operation) -> Expected:
    open_ = _not_trained(model)
    if open_:
        return open_
    for id, total in model.reduced.items():
        parameter = model.case.parameter(id)
        new = training_oracle.stepped(
            model.weight(id), total, learning_rate(operation), parameter.dtype, grad_dtype(parameter)
        )
        model.write(id, index)
        model.weights[id, index] = new
        model.contents[id, index] = as_bytes(rounded(new.values, parameter.dtype))
    return Expected()


def _not_trained(model: _Model) -> Expected | None:
    """What is said where there is nothing to clip or to step, or something that is no float."""
    if model.reduced and all(trained(model.case.parameter(id)) for id in model.reduced):
        return None
    return Expected(wanted="unspecified", reason="what was reduced is not all of floating parameters")


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
    "forward": _forward,
    "backward": _backward,
    "clip": _clip,
    "step": _step,
}
