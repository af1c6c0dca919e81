"""A case as the shortest Python that rebuilds it."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from shardproof.case import Case

_WIDTH = 100


def as_python(case: Case) -> str:
    """Statements that import what they need and set `case` to an equal case; fields with their default are left out."""
    names: set[str] = set()
    text = _value(case, names, 0, len("case = "))
    return f"from shardproof.case import {', '.join(sorted(names))}\n\ncase = {text}\n"


def _value(value: Any, names: set[str], indent: int, used: int) -> str:
    """`used` characters of the line are taken already; what does not fit is broken, one item a line."""
    if is_dataclass(value):
        names.add(type(value).__name__)
        head, items, tail = f"{type(value).__name__}(", _arguments(value), ")"
    elif isinstance(value, tuple):
        head, items, tail = "(", [("", item) for item in value], ",)" if len(value) == 1 else ")"
    else:
        return json.dumps(value) if isinstance(value, str) else repr(value)
    flat = f"{head}{', '.join(label + _value(item, names, 0, -10_000) for label, item in items)}{tail}"
    if indent + used + len(flat) <= _WIDTH or not items:
        return flat
    inner = indent + 4
    lines = [f"{' ' * inner}{label}{_value(item, names, inner, len(label) + 1)}," for label, item in items]
    return "\n".join((head, *lines, " " * indent + ")"))


def _arguments(value: Any) -> list[tuple[str, Any]]:
    """(label, value) of each argument: what has no default by position, what differs from its default by name.

    The few arguments of a Case are long, so that each is named.
    """
    arguments = []
    for field in fields(value):
        own = getattr(value, field.name)
        if field.default is MISSING and field.default_factory is MISSING:
            arguments.append((f"{field.name}=" if isinstance(value, Case) else "", own))
            continue
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        if own != default:
            arguments.append((f"{field.name}=", own))
    return arguments
