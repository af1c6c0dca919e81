"""Which order of operations makes sense, whoever implements them.

Parameters are registered once, in the main group. A load at another world size moves the program to that group: its
operations follow there, and those whose outcome is stated for the main group alone (reductions of given gradients) end.
A load starts training anew: what was reduced before it is no gradient of what it loads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from shardproof.case import Case, Operation

# (operation number, observed, expected)
Misstep = tuple[int, str, str]

_MAIN_ONLY = ("accumulate", "reduce")


@dataclass(slots=True)
class _Progress:
    """What the program has done so far."""

    group: str = "main"
    registered: set[str] = field(default_factory=set)
    under_way: set[str] = field(default_factory=set)
    gathered: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)


def out_of_order(case: Case) -> Iterator[Misstep]:
    """Every operation that comes before what it needs; ids and groups must exist already."""
    progress = _Progress()
    for index, operation in enumerate(case.program):
        if operation.kind == "layout":
            continue
        ids = set(case.acted_on(operation))
        for observed, expected in _missteps(case, progress, operation, ids):
            yield index, observed, expected
        _advance(progress, operation, ids)


def _missteps(case: Case, progress: _Progress, operation: Operation, ids: set[str]) -> Iterator[tuple[str, str]]:
    kind = operation.kind
    if kind == "register":
        if operation.group != "main":
            yield f"register in {operation.group!r}", "in 'main'; a load registers elsewhere by itself"
        if ids & progress.registered:
            yield f"register of {min(ids & progress.registered)!r} again", "each parameter once"
        roots = {parameter.tied_to for parameter in case.parameters if parameter.id in ids} - {None}
        if not roots <= ids | progress.registered:
            yield "register of a tied parameter alone", "together with, or after, the one it is tied to"
        if case.divergences and len(ids) != len(case.parameters):
            yield "register of some parameters", "of all, where ranks differ"
        return
    if not ids <= progress.registered:
        missing = min(ids - progress.registered)
        yield f"{kind} of {missing!r}, which is not registered", "a register of it before"
    if operation.group != progress.group and kind != "load":
        yield f"{kind} in {operation.group!r}", f"in {progress.group!r}, where the parameters are now"
    for needs, rule in _NEEDS.get(kind, {}).items():
        if not rule(progress, ids):
            yield f"{kind} too early", needs
    if kind in _MAIN_ONLY and operation.group != "main":
        yield f"{kind} in {operation.group!r}", "in 'main'"


_Rule = Callable[[_Progress, set[str]], bool]


def _idle(progress: _Progress, ids: set[str]) -> bool:
    return not ids & progress.under_way


def _has_gradients(progress: _Progress, _: set[str]) -> bool:
    return bool({"reduce", "backward"} & progress.done)


_FREE = {"no prefetch of it under way: wait first": _idle}
_NEEDS: Mapping[str, Mapping[str, _Rule]] = {
    "gather": _FREE,
    "prefetch": _FREE,
    "wait": {"a prefetch of it before": lambda progress, ids: ids <= progress.under_way},
    "use": {"a gather or wait of it before": lambda progress, ids: ids <= progress.gathered},
    "invalidate": _FREE,
    "release": {**_FREE, "a gather or wait of it before": lambda progress, ids: ids <= progress.gathered},
    "update": _FREE,
    "save": _FREE,
    "load": {**_FREE, "a save before": lambda progress, _: "save" in progress.done},
    "norm": {"a reduce or backward before": _has_gradients},
    "clip": {"a reduce or backward before": _has_gradients},
    "step": {**_FREE, "a reduce or backward before": _has_gradients},
    "forward": _FREE,
    "backward": {**_FREE, "a forward of the same parameters before": lambda progress, _: "forward" in progress.done},
}


def _advance(progress: _Progress, operation: Operation, ids: set[str]) -> None:
    kind = operation.kind
    progress.done.add(kind)
    if kind == "register":
        progress.registered |= ids
    elif kind == "prefetch":
        progress.under_way |= ids
    elif kind in ("gather", "wait"):
        progress.under_way -= ids
        progress.gathered |= ids
    elif kind == "load" and operation.group != progress.group:
        progress.group, progress.gathered = operation.group, set()
    progress.done -= _ENDS.get(kind, set())


# What has to be done again after an operation: a backward uses its forward up, other contents need a new one.
_ENDS: Mapping[str, set[str]] = {
    "load": {"forward", "backward", "reduce"},
    "update": {"forward"},
    "backward": {"forward"},
    "step": {"forward"},
}
