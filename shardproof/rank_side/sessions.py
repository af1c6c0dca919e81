"""Opens an implementation in either form, so that the program runner sees one thing: a session."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

from shardproof.case import OPERATIONS
from shardproof.protocol import FUNCTIONS, SESSION


class NotAnImplementation(Exception):  # noqa: N818  # the user reads it as a statement
    """What was named cannot be used as an implementation; the message says why and what is expected."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """An implementation, found and looked at. `offers` are the operations a program may use on it."""

    target: str
    object: Any
    form: str
    offers: tuple[str, ...]

    def attribute(self, name: str, default: Any) -> Any:
        """One of the optional plain attributes."""
        return getattr(self.object, name, default)

    def function(self, name: str) -> Callable[..., Any] | None:
        """One of the implementation's own functions, where it has it."""
        found = getattr(self.object, name, None)
        return found if callable(found) else None


_ALWAYS = {"register", "gather", "use"}
_loaded: dict[str, Loaded] = {}


def load(target: str) -> Loaded:
    """Import `pkg.mod` or `pkg.mod:attr`; a class is called without arguments. Cached.

    Raises NotAnImplementation where it cannot be imported or lacks what either form needs.
    """
    if target not in _loaded:
        _loaded[target] = _load(target)
    return _loaded[target]


def _load(target: str) -> Loaded:
    module_name, _, attribute = target.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in filter(None, attribute.split(".")):
            found = getattr(found, part)
    except Exception as error:
        raise NotAnImplementation(f"{target} cannot be imported: {type(error).__name__}: {error}") from error
    if inspect.isclass(found) and not hasattr(found, "Session"):
        try:
            found = found()
        except Exception as error:
            raise NotAnImplementation(f"{target}() raised {type(error).__name__}: {error}") from error
    session = getattr(found, "Session", None)
    if session is not None:
        missing = [name for name in ("register", "gather") if not callable(getattr(session, name, None))]
        if missing:
            raise NotAnImplementation(f"{target}.Session has no {' and no '.join(missing)}")
        return Loaded(target, found, "session", _session_offers(found, session))
    missing = [name for name in ("shard", "gather") if not callable(getattr(found, name, None))]
    if missing:
        kind = "module" if isinstance(found, ModuleType) else type(found).__name__
        raise NotAnImplementation(
            f"{target} ({kind}) has no function {' and no function '.join(missing)}; expected "
            "shard(full, rank, world_size) and gather(shard, shape, group), or a class Session"
        )
    optional = {name for name in FUNCTIONS if callable(getattr(found, name, None))} - {"shard"}
    return Loaded(target, found, "functions", _ordered(optional | {"gather", "use", "update"}))


def _session_offers(implementation: Any, session: type) -> tuple[str, ...]:
    own = {name for name in SESSION if callable(getattr(session, name, None))}
    if callable(getattr(implementation, "layout", None)):
        own.add("layout")
    return _ordered(own | _ALWAYS)


def _ordered(offers: set[str]) -> tuple[str, ...]:
    return tuple(name for name in OPERATIONS if name in offers)


@dataclass(slots=True)
class Spec:
    """What a session is given for one parameter; see `shardproof.protocol.Spec`."""

    id: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    full: torch.Tensor
    shard: torch.Tensor | None = None
    grad: torch.Tensor | None = None
    requires_grad: bool = True
    tied_to: str | None = None
    comm_dtype: torch.dtype | None = None


@dataclass(slots=True)
class FunctionSession:
    """The function form seen as a session: it keeps the shards that the functions work on."""

    implementation: Any
    group: dist.ProcessGroup
    shards: dict[str, torch.Tensor] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def register(self, specs: Sequence[Spec]) -> None:
        """Keep what `shard` returned."""
        for spec in specs:
            if spec.shard is not None:
                self.shards[spec.id], self.shapes[spec.id] = spec.shard, spec.shape

    def gather(self, id: str) -> torch.Tensor:
        """The implementation's gather."""
        result: torch.Tensor = self.implementation.gather(self.shards[id], self.shapes[id], self.group)
        return result

    def update(self, id: str, shard: torch.Tensor) -> None:
        """The next gather sends this shard."""
        self.shards[id] = shard

    def reduce(self, grads: Mapping[str, torch.Tensor], reduction: str) -> Mapping[str, torch.Tensor]:  # noqa: ARG002  # the form has sums only
        """The implementation's reduce, parameter by parameter."""
        return {id: self.implementation.reduce(grad, self.group) for id, grad in grads.items()}


def open_session(loaded: Loaded, group: dist.ProcessGroup, device: torch.device, layout: Mapping[str, Any]) -> Any:
    """A session for one group, whichever form the implementation has."""
    if loaded.form == "functions":
        return FunctionSession(loaded.object, group)
    return loaded.object.Session(group, device, layout)
