"""What a session remembers. Every operation is a plain function over it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from gpu_impl.arithmetic import check_place
from gpu_impl.buffers import Pool
from gpu_impl.errors import UnknownParameterError
from gpu_impl.parameters import Parameter, Place
from gpu_impl.streams import Order, order_for
from gpu_impl.symmetric import Symmetric, open_symmetric


@dataclass(slots=True)
class State:
    """One rank's side of a session.

    `names` maps every registered id to its parameter; tied ids map to the same one. `pending` are gradients added
    up but not reduced, `reduced` this rank's shards of the last reduction, both by parameter. `scalars` are 0-dim
    values that a checkpoint carries untouched. `counters` say what the last reduction sent. `tape` is the last
    forward's loss and the tensors it was computed from. `symmetric` is how gathers move where it is not a collective.
    """

    group: dist.ProcessGroup
    place: Place
    order: Order
    pool: Pool
    names: dict[str, Parameter] = field(default_factory=dict)
    pending: dict[Parameter, Any] = field(default_factory=dict)
    reduced: dict[Parameter, torch.Tensor] = field(default_factory=dict)
    scalars: dict[str, torch.Tensor | float | int] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    tape: Any = None
    symmetric: Symmetric | None = None

    def find(self, id: str) -> Parameter:
        """The parameter of that id. Raises UnknownParameterError."""
        try:
            return self.names[id]
        except KeyError:
            known = ", ".join(map(repr, self.names)) or "none"
            raise UnknownParameterError(f"no parameter {id!r} is registered; registered: {known}") from None

    def find_all(self, ids: Iterable[str]) -> tuple[Parameter, ...]:
        """Each named parameter once, in order of registration, so that every rank communicates in the same order."""
        return tuple(sorted({self.find(id) for id in ids}, key=lambda parameter: parameter.index))


def open_state(
    group: dist.ProcessGroup, device: torch.device, layout: Mapping[str, Any], pool_bytes: int, *, symmetric: bool
) -> State:
    """A state without parameters.

    Raises ValueError for a layout other than flat_padded, RefusedError where `symmetric` memory is not to be had.
    """
    kind = layout.get("kind", "flat_padded")
    if kind != "flat_padded":
        raise ValueError(f"layout kind is {kind!r}, expected 'flat_padded'")
    place = Place(group.rank(), group.size(), layout.get("alignment", 1), device)
    check_place(place.rank, place.world_size, place.alignment)
    order = order_for(device)
    memory = open_symmetric(group, device) if symmetric else None
    return State(group, place, order, Pool(order, pool_bytes), symmetric=memory)
