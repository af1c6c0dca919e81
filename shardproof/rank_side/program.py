"""Performs a case's program on one rank and writes down, step by step, what happened."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from invariants import Claim, Held, Place, Seen, Step
from reference import Run, encode
from shardproof.case import Case, Group, Operation
from shardproof.contents import REGISTERED, grad_dtype, gradient, learning_rate, with_gradient
from shardproof.layouts import at, cuts_of
from shardproof.rank_side import scalars
from shardproof.rank_side.frames import frames_outside
from shardproof.rank_side.observer import Observer, PoisonedResize
from shardproof.rank_side.sessions import Loaded, open_session
from shardproof.rank_side.specs import Given, Setting, give, new_shards
from shardproof.rank_side.tensors import Guarded, guarded, raw_bytes, see, torch_dtype

Findings = dict[str, Any]


@dataclass(slots=True)
class Kept:
    """A gathered tensor that a later `use` will look at, and what it held when it was handed out."""

    parameter: str
    tensor: torch.Tensor
    bits: bytes
    gathered_at: int
    released: bool = False


@dataclass(slots=True)
class State:
    """All that one rank remembers while it performs a program."""

    case: Case
    loaded: Loaded
    pool_rank: int
    device: torch.device
    folder: Path
    poison: int
    group_of: Callable[[Sequence[int]], Any]
    observer: Observer
    sessions: dict[str, Any] = field(default_factory=dict)
    given: dict[str, Given] = field(default_factory=dict)
    kept: list[Kept] = field(default_factory=list)
    storages: dict[str, StorageWeakRef] = field(default_factory=dict)
    gathered: set[tuple[str, str]] = field(default_factory=set)
    index: int = 0

    def rank_in(self, group: Group) -> int:
        """This rank's number inside a group."""
        return group.ranks.index(self.pool_rank)

    def setting(self, group: Group) -> Setting:
        """For whom specs are built in this group."""
        return Setting(self.case, self.loaded, self.device, self.poison, self.rank_in(group), len(group.ranks))

    def warm(self, group: str, ids: Sequence[str]) -> bool:
        """Whether all of these were gathered before and nobody holds a view of them, so that buffers can be reused."""
        holding = {kept.parameter for kept in self.kept}
        return all((group, id) in self.gathered and id not in holding for id in ids)


def perform(state: State, note: Callable[[int], None]) -> Iterator[Step]:
    """Every step of the program that this rank takes part in; ends early after one that raised."""
    case = state.case
    delays = {(delay.rank, delay.operation): delay.milliseconds for delay in case.delays}
    with PoisonedResize(state.poison):
        for index, operation in enumerate(case.program):
            group = case.group(operation.group)
            if state.pool_rank not in group.ranks:
                continue
            rank = state.rank_in(group)
            note(index)
            if (rank, index) in delays:
                time.sleep(delays[rank, index] / 1000)
            state.index = index
            try:
                step = _step(state, operation, rank, len(group.ranks))
            except _NothingSaved:
                _stopped(state, state.pool_rank).touch()
                return
            yield step
            if step.outcome != "done":
                if any(later.kind in ("save", "load") for later in case.program[index:]):
                    _stopped(state, state.pool_rank).touch()
                return


class _NothingSaved(BaseException):  # no error of this rank, and nothing that an operation may catch
    """What this rank was to load is not there, or not all who load it, because a saving rank had stopped before."""


def _step(state: State, operation: Operation, rank: int, world_size: int) -> Step:
    ids = state.case.acted_on(operation)
    state.observer.reset(state.case.group(operation.group).ranks)
    found: Findings = {}
    outcome, error, raised_at = "done", "", tuple[str, ...]()
    began = time.monotonic()
    try:
        found = _HANDLERS[operation.kind](state, operation, ids)
    except Exception as raised:  # whatever an implementation raises is what was observed
        outcome = "refused" if operation.kind == "register" else "raised"
        error, raised_at = f"{type(raised).__name__}: {raised}", frames_outside(raised)
    seconds = time.monotonic() - began
    found.setdefault("cost", state.observer.cost())
    step = Step(
        index=state.index,
        kind=operation.kind,
        parameters=ids,
        rank=rank,
        world_size=world_size,
        outcome=outcome,  # type: ignore[arg-type]  # one of the two words above
        error=error,
        seconds=seconds,
        raised_at=raised_at,
        # On an accelerator an operation is only enqueued when its call returns: its time says nothing.
        began=began if state.device.type == "cpu" else None,
        **found,
    )
    return _with_memory(state, step)


def _with_memory(state: State, step: Step) -> Step:
    """Look at all memory the harness owns or was promised: inputs, their guards, results held."""
    looks = {id: given.changes() for id, given in state.given.items()}
    may_change = step.kind in _MAY_CHANGE_SHARDS
    changed = () if may_change else tuple(id for id, (mutated, _) in looks.items() if mutated)
    broken = tuple(id for id, (_, broken) in looks.items() if broken)
    held = tuple(_look_at(kept) for kept in state.kept if kept.gathered_at != step.index)
    if not (changed or broken or held):
        return step
    return replace(step, mutated=step.mutated + changed, guards=step.guards + broken, held=step.held + held)


_MAY_CHANGE_SHARDS = {"register", "update", "load", "step"}


def _look_at(kept: Kept) -> Held:
    return Held(kept.parameter, kept.gathered_at, kept.released, _first_wrong(kept))


def _first_wrong(kept: Kept) -> int | None:
    """The first element that differs from what was handed out, None where all are the same."""
    if kept.tensor.numel() and not kept.tensor.untyped_storage().nbytes():
        return 0  # its memory was given back under it: what lies there now may be anybody's
    now = raw_bytes(kept.tensor)
    if now == kept.bits:
        return None
    size = kept.tensor.element_size()
    return next(at for at in range(0, len(now), size) if now[at : at + size] != kept.bits[at : at + size]) // size


# Handlers: one an operation. Each returns the fields of Step that it knows.


def _register(state: State, operation: Operation, ids: Sequence[str]) -> Findings:
    group = state.case.group(operation.group)
    session = _session(state, group)
    written = REGISTERED if operation.group == "main" else f"unwritten#{state.index}"
    specs, given = give(state.setting(group), ids, written, diverge=operation.group == "main")
    state.given.update(given)
    with state.observer:
        session.register(specs)
    return {
        "available": _availability(session, ids),
        "mutated": tuple(id for id, shard in given.items() if shard.full_mutated),
    }


def _layout(state: State, operation: Operation, ids: Sequence[str]) -> Findings:
    group = state.case.group(operation.group)
    layout = state.loaded.function("layout")
    if layout is None:
        raise TypeError(f"{state.loaded.target} offers no layout(shape, rank, world_size)")
    cuts = cuts_of(state.case.layout, state.case.parameters, len(group.ranks))
    claims = {}
    for id in ids:
        shape = state.case.parameter(id).shape
        claims[id] = claim(layout(shape, state.rank_in(group), len(group.ranks), **cuts[id].options), shape)
    return {"claims": claims}


def claim(answer: Mapping[str, Any], shape: tuple[int, ...]) -> Claim:
    """A layout answer as data. Raises TypeError or KeyError where it has not the documented form."""
    return Claim(
        shard_numel=int(answer["shard_numel"]),
        padded_numel=int(answer["padded_numel"]),
        runs=tuple(Run(*map(int, run)) for run in answer["runs"]),
        logical_shape=tuple(answer.get("logical_shape", shape)),
        place=Place(*map(int, answer["place"])) if "place" in answer else None,
    )


def _gather(state: State, operation: Operation, ids: Sequence[str]) -> Findings:
    session = state.sessions[operation.group]
    return _collect(state, operation, ids, session.gather, session)


def _wait(state: State, operation: Operation, ids: Sequence[str]) -> Findings:
    session = state.sessions[operation.group]
    return _collect(state, operation, ids, session.wait, session)


def _collect(
    state: State, operation: Operation, ids: Sequence[str], call: Callable[[str], torch.Tensor], session: Any
) -> Findings:
    """Call, look at each result, and keep the ones that a later `use` asks for."""
    warm = state.warm(operation.group, ids)
    results: dict[str, Seen] = {}
    for id in ids:
        with state.observer:
            tensor = _checked(call(id), f"{operation.kind}({id!r})", state.device)
        results[id] = see(tensor)
        state.gathered.add((operation.group, id))
        state.storages[id] = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]  # torch's
        if _used_later(state, id):
            state.kept.append(Kept(id, tensor, results[id].bits, state.index))
        del tensor
    return {"results": results, "warm": warm, "available": _availability(session, ids)}


def _checked(result: Any, call: str, device: torch.device) -> torch.Tensor:
    if not isinstance(result, torch.Tensor):
        raise TypeError(f"{call} returned {type(result).__name__}, expected a torch.Tensor")
    if result.device.type != device.type:
        raise TypeError(f"{call} returned a tensor on {result.device}, expected {device}")
    return result


def _used_later(state: State, id: str) -> bool:
    """Whether the program uses this result before it gathers the parameter again."""
    for operation in state.case.program[state.index + 1 :]:
        if id in state.case.acted_on(operation) and operation.kind == "use":
            return True
    return False


def _use(state: State, operation: Operation, ids: Sequence[str]) -> Findings:  # noqa: ARG001  # every handler's form
    """Look at held results a last time and let go of them."""
    held = tuple(_look_at(kept) for kept in state.kept if kept.parameter in ids)
    state.kept = [kept for kept in state.kept if kept.parameter not in ids]
    return {"held": held}


def _prefetch(state: State, operation: Operation, ids: Sequence[str]) -> Findings:
    session = state.sessions[operation.group]
    warm = state.warm(operation.group, ids)
    with state.observer:
        session.prefetch(list(ids))
    return {"warm": warm, "available": _availability(session, ids)}


def _invalidate(state: State, operation: Operation, ids: Sequence[str]) -> Findings:
    session = state.sessions[operation.group]
    with state.observer:
        for id in ids:
            session.invalidate(id)
    return {"available": _availability(session, ids)}


def _release(state: State, operation: Operation, ids: Sequence[str]) -> Findings:
    session = state.sessions[operation.group]
    with state.observer, _profiled(session) as records:
        for id in ids:
            session.release(id)
    for kept in state.kept:
        kept.released |= kept.parameter in ids
    if any(later.kind in ("gather", "prefetch", "wait") for later in state.case.program[state.index + 1 :]):
        return {"profile": _records(records)}
    # Nothing is gathered any more: give kept buffers back and see whether the memory is gone.
    if callable(getattr(session, "trim", None)):
        session.trim()
    holding = {kept.parameter for kept in state.kept}
    watched = [id for id in ids if id in state.storages and id not in holding]
    return {"freed": {id: _gone(state.storages[id]) for id in watched}, "profile": _records(records)}


def _gone(storage: StorageWeakRef) -> bool:
    """Whether a storage's memory is gone: with the storage, or from it (some free by resizing to nothing)."""
    if storage.expired():  # type: ignore[no-untyped-call]  # torch left it unannotated
        return True
    alive = torch.UntypedStorage._new_with_weak_ptr(storage.cdata)
    return alive is None or not alive.nbytes()


def _profiled(session: Any) -> AbstractContextManager[Sequence[Any]]:
    """The session's own profiling of what happens inside, where it offers any. A release costs nothing that counts."""
    profile = getattr(session, "profile", None)
    return profile() if callable(profile) else nullcontext(())


def _records(records: Sequence[Any]) -> tuple[dict[str, float], ...]:
    """Profile records as plain mappings of their numbers."""
    plain = (record if isinstance(record, Mapping) else _by_name(record) for record in records)
    return tuple({key: value for key, value in record.items() if isinstance(value, (int, float))} for record in plain)


def _by_name(value: Any) -> dict[str, Any]:
    """A dataclass's fields; none of ours nests another, which is what makes `asdict` slow."""
    return {one.name: getattr(value, one.name) for one in fields(value)}


def _update(state: State, operation: Operation, ids: Sequence[str]) -> Findings:
    session = state.sessions[operation.group]
    fresh = new_shards(state.setting(state.case.group(operation.group)), ids, state.index)
    with state.observer:
        for id in ids:
            session.update(id, fresh[id].shard)
    state.given.update(fresh)
    return {"available": _availability(session, ids)}


def _gradients(state: State, operation: Operation) -> dict[str, Guarded]:
    group = state.case.group(operation.group)
    grads = {}
    for parameter in with_gradient(state.case, operation):
        dtype = grad_dtype(parameter)
        bits = encode(gradient(state.case, parameter, state.index, state.rank_in(group)), dtype).tobytes()
        grads[parameter.id] = guarded(bits, parameter.shape, torch_dtype(dtype), state.device)
    return grads


def _accumulate(state: State, operation: Operation, ids: Sequence[str]) -> Findings:  # noqa: ARG001  # every handler's form
    grads = _gradients(state, operation)
    with state.observer:
        state.sessions[operation.group].accumulate({id: grad.tensor for id, grad in grads.items()})
    return _inputs(grads)


def _reduce(state: State, operation: Operation, ids: Sequence[str]) -> Findings:  # noqa: ARG001  # every handler's form
    grads = _gradients(state, operation)
    with state.observer:
        reduced = state.sessions[operation.group].reduce(
            {id: grad.tensor for id, grad in grads.items()}, operation.reduction
        )
    cost = state.observer.cost()
    results = {id: see(_checked(reduced[id], f"reduce[{id!r}]", state.device)) for id in grads}
    counters = {name: int(count) for name, count in getattr(state.sessions[operation.group], "counters", {}).items()}
    return {"results": results, "cost": cost, "counters": counters, **_inputs(grads)}


def _inputs(grads: Mapping[str, Guarded]) -> Findings:
    return {
        "mutated": tuple(id for id, grad in grads.items() if grad.mutated()),
        "guards": tuple(id for id, grad in grads.items() if grad.guards_broken()),
    }


def _norm(state: State, operation: Operation, ids: Sequence[str]) -> Findings:  # noqa: ARG001  # every handler's form
    with state.observer:
        return {"scalar": float(state.sessions[operation.group].norm())}


def _save(state: State, operation: Operation, ids: Sequence[str]) -> Findings:  # noqa: ARG001  # every handler's form
    _await_readers(state, operation)
    session = state.sessions[operation.group]
    path = state.folder / "saved"
    scalars.plant(session, state.index)
    with state.observer:
        session.save(str(path))
    _marker(state, state.index, state.pool_rank).touch()
    found: Findings = {"cost": state.observer.cost(), "scalars": scalars.seen(session)}
    if callable(getattr(session, "read", None)):
        found["results"] = {id: see(tensor) for id, tensor in session.read(str(path)).items()}
    return found


def _load(state: State, operation: Operation, ids: Sequence[str]) -> Findings:
    """Load what was saved; at another world size the parameters are registered there first, with other contents."""
    _await_savers(state, operation)
    if operation.group not in state.sessions:
        _register(state, operation, ids)
    session = state.sessions[operation.group]
    scalars.plant(session, state.index)
    with state.observer:
        session.load(str(state.folder / "saved"))
    _read(state, state.index, state.pool_rank).touch()
    return {"available": _availability(session, ids), "scalars": scalars.seen(session)}


def _marker(state: State, index: int, pool_rank: int) -> Path:
    """There once this rank came back from its save, or came to its load, which is operation number `index`."""
    return state.folder / f"reached-{index}-{pool_rank}"


def _read(state: State, index: int, pool_rank: int) -> Path:
    """There once this rank came back from its load, which is operation number `index`."""
    return state.folder / f"read-{index}-{pool_rank}"


def _stopped(state: State, pool_rank: int) -> Path:
    """There once this rank has ended its program before a save or a load."""
    return state.folder / f"stopped-{pool_rank}"


def _await_savers(state: State, operation: Operation) -> None:
    """Begin a load in another group only when whoever saved has saved, and whoever takes part in both is here too.

    Ranks that took no part in the save know nothing of its end, and a collective would add a wait to those that did.
    Where a saving rank is lost, the pool ends this one; where one was refused or raised, this one has nothing to do,
    and must not be found waiting for it.
    """
    _marker(state, state.index, state.pool_rank).touch()
    earlier = [index for index in range(state.index) if state.case.program[index].kind == "save"]
    saved = state.case.program[earlier[-1]].group if earlier else operation.group
    if saved == operation.group:
        return
    here, savers = state.case.group(operation.group).ranks, state.case.group(saved).ranks
    _await(state, {rank: _marker(state, state.index if rank in here else earlier[-1], rank) for rank in savers})


def _await_readers(state: State, operation: Operation) -> None:
    """Begin a save only when the other groups that saved or loaded before are done with it: it is written over."""
    for index, earlier in enumerate(state.case.program[: state.index]):
        if earlier.group == operation.group or earlier.kind not in ("save", "load"):
            continue
        done = _marker if earlier.kind == "save" else _read
        _await(state, {rank: done(state, index, rank) for rank in state.case.group(earlier.group).ranks})


def _await(state: State, markers: Mapping[int, Path]) -> None:
    """Wait for what each of these ranks leaves behind. Raises _NothingSaved where one of them has stopped before."""
    while not all(marker.exists() for marker in markers.values()):
        if any(_stopped(state, rank).exists() for rank in markers):
            raise _NothingSaved
        time.sleep(0.001)


def _forward(state: State, operation: Operation, ids: Sequence[str]) -> Findings:  # noqa: ARG001  # every handler's form
    with state.observer:
        return {"scalar": float(state.sessions[operation.group].forward(operation.value))}


def _backward(state: State, operation: Operation, ids: Sequence[str]) -> Findings:  # noqa: ARG001  # every handler's form
    with state.observer:
        reduced = state.sessions[operation.group].backward()
    cost = state.observer.cost()
    if not isinstance(reduced, Mapping):
        return {"cost": cost}
    return {
        "results": {id: see(_checked(shard, f"backward[{id!r}]", state.device)) for id, shard in reduced.items()},
        "cost": cost,
    }


def _clip(state: State, operation: Operation, ids: Sequence[str]) -> Findings:  # noqa: ARG001  # every handler's form
    with state.observer:
        return {"scalar": float(state.sessions[operation.group].clip(float(operation.value)))}


def _sgd_step(state: State, operation: Operation, ids: Sequence[str]) -> Findings:  # noqa: ARG001  # every handler's form
    with state.observer:
        state.sessions[operation.group].step(learning_rate(operation))
    return {}


_HANDLERS: dict[str, Callable[[State, Operation, Sequence[str]], Findings]] = {
    "register": _register,
    "layout": _layout,
    "gather": _gather,
    "prefetch": _prefetch,
    "wait": _wait,
    "use": _use,
    "invalidate": _invalidate,
    "release": _release,
    "update": _update,
    "accumulate": _accumulate,
    "reduce": _reduce,
    "norm": _norm,
    "save": _save,
    "load": _load,
    "forward": _forward,
    "backward": _backward,
    "clip": _clip,
    "step": _sgd_step,
}


def _session(state: State, group: Group) -> Any:
    """The group's session, opened at its first operation."""
    if group.name not in state.sessions:
        process_group = state.group_of(group.ranks)
        layout = _by_name(at(state.case.layout, len(group.ranks)))
        state.sessions[group.name] = open_session(state.loaded, process_group, state.device, layout)
    return state.sessions[group.name]


def _availability(session: Any, ids: Sequence[str]) -> dict[str, bool]:
    ask = getattr(session, "available", None)
    return {id: bool(ask(id)) for id in ids} if callable(ask) else {}
