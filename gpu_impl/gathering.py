"""The life of a gathered parameter: started, complete, stale, released.

Every gather goes the same way: a buffer that nobody holds, one collective from the shard straight into it, and a view
of the true shape once it is complete. `gather` does all of it at once; `prefetch` starts it for several parameters as
one collective and `gather` or `wait` completes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from gpu_impl.buffers import Buffer
from gpu_impl.parameters import Parameter
from gpu_impl.seam import Pair, Work, all_gather, finish_all_gather, start_all_gather
from gpu_impl.state import State
from gpu_impl.transport import as_one_dtype

Cargo = tuple[tuple[Parameter, Buffer], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Flight:
    """A collective under way and what it fills. `work` is None where there is nothing to move."""

    cargo: Cargo
    pairs: tuple[Pair, ...]
    work: Work | None


@dataclass(frozen=True, slots=True)
class Handle:
    """What `prefetch` returns. Waiting twice, or for a parameter that was completed another way, is fine."""

    state: State
    ids: tuple[str, ...]

    def wait(self) -> dict[str, torch.Tensor]:
        """The gathered parameters, complete."""
        return {id: gather(self.state, id) for id in self.ids}


def gather(state: State, id: str) -> torch.Tensor:
    """The whole parameter, a view of its buffer; communicates only where it is neither valid nor under way."""
    parameter = state.find(id)
    if parameter.flight is not None:
        land(state, parameter)
    if parameter.valid:
        buffer = parameter.buffer
        assert buffer is not None  # what is complete has a buffer
        state.order.reading(buffer.trace, buffer.memory)
    else:
        buffer = _gather_now(state, parameter)
    return buffer.memory.as_strided(parameter.shape, parameter.strides)


def _gather_now(state: State, parameter: Parameter) -> Buffer:
    """One collective on the current stream, which may read right after it, from the shard straight into a buffer."""
    buffer, order = _writable(state, parameter), state.order
    settled = order.settled(parameter.trace, buffer.trace)
    if not settled:
        order.reading(parameter.trace, parameter.shard)
        order.writing(buffer.trace)
    if parameter.numel:
        try:
            _move(state, buffer.receive, parameter.send)
        except BaseException:
            _unload(state, ((parameter, buffer),))
            raise
    if settled:
        order.rewrote(buffer.trace)
    else:
        order.wrote(buffer.trace)
    parameter.buffer, parameter.valid = buffer, True
    return buffer


def _move(state: State, receive: torch.Tensor, send: torch.Tensor) -> None:
    """Every rank's part into `receive`, as the session was opened to move it."""
    if state.symmetric is None:
        all_gather(receive, send, state.group)
    else:
        state.symmetric.gather(receive, send)


def prefetch(state: State, ids: Iterable[str]) -> Handle:
    """Start gathering, as one collective, those of the parameters that are neither valid nor under way."""
    asked = tuple(ids)
    missing = tuple(p for p in state.find_all(asked) if not p.valid and p.flight is None)
    if missing:
        cargo = _load(state, missing)
        with state.order.aside():
            _depart(state, cargo)
    return Handle(state, asked)


def land(state: State, parameter: Parameter) -> None:
    """Complete the gather that is under way for this parameter, if any, for all it carries."""
    flight: Flight | None = parameter.flight
    if flight is None:
        return
    for passenger, _ in flight.cargo:
        passenger.flight = None
    try:
        if flight.work is not None:
            finish_all_gather(flight.work, flight.pairs, state.group)
    except BaseException:
        _unload(state, flight.cargo)
        raise
    state.order.wrote(*(buffer.trace for _, buffer in flight.cargo))
    for passenger, buffer in flight.cargo:
        state.order.reading(passenger.trace, passenger.shard)
        passenger.buffer, passenger.valid = buffer, True


def release(state: State, id: str) -> None:
    """The parameter is not needed any more. Views still held keep their memory and contents."""
    parameter = state.find(id)
    land(state, parameter)
    if parameter.buffer is None or parameter.persistent:
        return
    state.pool.give(parameter.buffer)
    parameter.buffer, parameter.valid = None, False


def invalidate(state: State, parameter: Parameter) -> None:
    """The shard has changed, or is about to count as changed: the next gather communicates."""
    land(state, parameter)
    state.order.wrote(parameter.trace)
    parameter.valid = False


def update(state: State, id: str, shard: torch.Tensor) -> None:
    """Copy new contents into the shard.

    Raises TypeError or ValueError, before anything changes, where they do not fit.
    """
    parameter = state.find(id)
    if not isinstance(shard, torch.Tensor) or shard.dtype != parameter.dtype:
        found = shard.dtype if isinstance(shard, torch.Tensor) else type(shard).__name__
        raise TypeError(f'new shard of "{id}" is {found}, expected a tensor of {parameter.dtype}')
    if shard.shape != parameter.shard.shape:
        raise ValueError(f'new shard of "{id}" has shape {tuple(shard.shape)}, expected {tuple(parameter.shard.shape)}')
    land(state, parameter)
    state.order.writing(parameter.trace)
    with torch.no_grad():
        parameter.shard.copy_(shard)
    invalidate(state, parameter)


def persist(state: State, ids: Iterable[str], keep: bool) -> None:
    """From now on, release leaves these parameters gathered, or (keep False) does what it does for the others."""
    for parameter in state.find_all(ids):
        parameter.persistent = keep


def trim(state: State) -> None:
    """Give up all memory that is only kept for reuse."""
    state.pool.clear()
    for parameter in _stale(state):
        if parameter.buffer is not None:
            state.pool.forget(parameter.buffer)
            parameter.buffer = None


def held_bytes(state: State) -> int:
    """Bytes that are only kept for reuse: buffers at rest, and those of stale parameters."""
    stale = (parameter.buffer.nbytes for parameter in _stale(state) if parameter.buffer is not None)
    return state.pool.idle_bytes + sum(stale)


def _stale(state: State) -> Sequence[Parameter]:
    return [parameter for parameter in set(state.names.values()) if not parameter.valid]


def _load(state: State, parameters: Sequence[Parameter]) -> Cargo:
    """A buffer that may be overwritten for each parameter."""
    cargo: list[tuple[Parameter, Buffer]] = []
    try:
        for parameter in parameters:
            cargo.append((parameter, _writable(state, parameter)))
    except BaseException:  # out of memory: what was taken goes back
        _unload(state, cargo)
        raise
    return tuple(cargo)


def _unload(state: State, cargo: Iterable[tuple[Parameter, Buffer]]) -> None:
    """Let go of buffers that a backend may still write to: they serve nobody again."""
    for _, buffer in cargo:
        state.pool.forget(buffer)


def _writable(state: State, parameter: Parameter) -> Buffer:
    """The parameter's own stale buffer where nobody holds a view of it, else another one."""
    buffer, parameter.buffer = parameter.buffer, None
    if buffer is not None and not buffer.held():
        return buffer
    if buffer is not None:
        state.pool.forget(buffer)
    return state.pool.take(parameter.key)


def _depart(state: State, cargo: Cargo) -> None:
    """Start the collective that fills these buffers."""
    for parameter, _ in cargo:
        state.order.reading(parameter.trace, parameter.shard)
    state.order.writing(*(buffer.trace for _, buffer in cargo))
    moved = [(parameter, buffer) for parameter, buffer in cargo if parameter.numel]
    receives = as_one_dtype([buffer.receive for _, buffer in moved])
    sends = as_one_dtype([parameter.send for parameter, _ in moved])
    pairs = tuple(zip(receives, sends, strict=True))
    try:
        work = _started(state, pairs) if pairs else None
    except BaseException:
        _unload(state, cargo)
        raise
    flight = Flight(cargo, pairs, work)
    for parameter, _ in cargo:
        parameter.flight = flight


def _started(state: State, pairs: Sequence[Pair]) -> Work:
    """One collective for all pairs, or copies on the stream beside the current one."""
    if state.symmetric is None:
        return start_all_gather(pairs, state.group)
    for receive, send in pairs:
        state.symmetric.gather(receive, send)
    return state.order.passed()
