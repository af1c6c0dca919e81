"""Registers parameters on every rank or on none.

Each rank first looks at its own specs; whatever it finds wrong there it only writes down, since a rank that raised
now would leave the others waiting. Then one exchange for all parameters decides for everybody.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpu_impl.errors import RegistrationError
from gpu_impl.exchange import exchange
from gpu_impl.manifest import Entry, Manifest, decode, refusal
from gpu_impl.parameters import Parameter, Spec, prepare
from gpu_impl.state import State


def register(state: State, specs: Iterable[Spec]) -> None:
    """Take these parameters beside those already registered. Raises RegistrationError, on every rank or on none."""
    prepared, manifest = _prepared(state, specs)
    everyone = exchange(
        manifest.encode(), objects=bool(manifest.objections), group=state.group, device=state.place.device
    )
    if everyone is not None:
        raise RegistrationError(refusal([decode(text) for _, text in everyone]))
    for id, parameter in prepared.items():
        if parameter.id == id:  # a tied id's parameter may have been in use for long
            state.order.wrote(parameter.trace)
    if state.symmetric is not None:
        state.symmetric.reserve(max((parameter.shard.nbytes for parameter in prepared.values()), default=0))
    state.names.update(prepared)


def _prepared(state: State, specs: Iterable[Spec]) -> tuple[dict[str, Parameter], Manifest]:
    """What this rank would register and what it says of it; never raises for anything a spec does."""
    prepared: dict[str, Parameter] = {}
    entries: list[Entry] = []
    objections: list[str] = []
    id: object = "?"
    try:
        for number, spec in enumerate(specs):
            id = f"number {number}"
            id = spec.id
            try:
                entries.append(_add(state, spec, prepared))
            except Exception as error:  # whatever it is, the other ranks must hear of it
                objections.append(f'parameter "{id}": {_said(error)}')
    except Exception as error:  # as above
        objections.append(f'parameters from "{id}" on: {_said(error)}')
    return prepared, Manifest(state.place.alignment, tuple(entries), tuple(objections))


def _add(state: State, spec: Spec, prepared: dict[str, Parameter]) -> Entry:
    """Prepare one parameter. Raises what is wrong with it."""
    id, tied_to = spec.id, getattr(spec, "tied_to", None)
    if not isinstance(id, str):
        raise TypeError(f"id is {id!r}, expected a string")
    if id in state.names or id in prepared:
        raise ValueError("is registered already, expected an id of its own")
    parameter = prepare(spec, len(state.names) + len(prepared), state.place)
    prepared[id] = parameter if tied_to is None else _tied(tied_to, parameter, {**state.names, **prepared})
    return Entry(
        id=id,
        shape=parameter.shape,
        dtype=str(parameter.dtype),
        shard_numel=parameter.shard.numel(),
        padded_numel=parameter.key[0],
        trainable=parameter.trainable,
        tied_to=tied_to,
        comm_dtype=None if parameter.comm_dtype is None else str(parameter.comm_dtype),
    )


def _tied(tied_to: str, parameter: Parameter, known: dict[str, Parameter]) -> Parameter:
    """The parameter that a tied one is another name of."""
    first = known.get(tied_to)
    if first is None:
        raise ValueError(f"is tied to {tied_to!r}, expected an id registered before it")
    for name in ("shape", "dtype"):
        mine, other = getattr(parameter, name), getattr(first, name)
        if mine != other:
            raise ValueError(f"{name} is {mine}, expected {other} as in {tied_to!r} that it is tied to")
    return first


def _said(error: Exception) -> str:
    """An error in words; its type where it is not one of the checks' own."""
    return str(error) if type(error) in (TypeError, ValueError) else f"{type(error).__name__}: {error}"
