"""Reads JSON values that nobody vouches for: each reader checks one value and names the place where it is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shardproof.errors import UsageError
from shardproof.names import nearest

Reader = Callable[[Any, str], Any]


def refuse(where: str, observed: str, expected: str, todo: str = "") -> UsageError:
    """The error for one place in a file."""
    return UsageError("this cannot be used", where=where, observed=observed, expected=expected, todo=todo)


def loads(text: str | bytes, where: str) -> Any:
    """The JSON value of a text. Raises UsageError for what is not JSON, or says one name twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise refuse(where, f"{twice!r} twice in one object", "each name once")
        return value

    try:
        return json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        lines = 1 + error.doc.count("\n")
        observed = f"{error.msg} at line {error.lineno} of {lines}, column {error.colno}"
        raise refuse(where, observed, "JSON", "the file may be cut short; write it again") from error
    except RecursionError as error:
        raise refuse(where, "values nested too deeply", "at most six levels") from error
    except ValueError as error:  # bytes that are no UTF-8, a number of thousands of digits
        raise refuse(where, str(error)[:120], "JSON in UTF-8") from error


def integer(low: int, high: int) -> Reader:
    """A whole number from `low` to `high`."""

    def read(value: Any, where: str) -> int:
        if type(value) is not int or not low <= value <= high:
            raise refuse(where, show(value), f"a whole number from {low} to {high}")
        return value

    return read


def text(most: int = 200) -> Reader:
    """A text of one to `most` characters, all of which can be printed."""

    def read(value: Any, where: str) -> str:
        if type(value) is not str or not 0 < len(value) <= most or not value.isprintable():
            raise refuse(where, show(value), f"a text of 1 to {most} printable characters")
        return value

    return read


def one_of(words: Sequence[Any]) -> Reader:
    """One of a few values."""

    def read(value: Any, where: str) -> Any:
        for word in words:
            if type(value) is type(word) and value == word:
                return word
        todo = nearest(value, [w for w in words if isinstance(w, str)]) if isinstance(value, str) else ""
        raise refuse(where, show(value), f"one of {', '.join(json.dumps(word) for word in words)}", todo)

    return read


def sequence(item: Reader, most: int, least: int = 0) -> Reader:
    """A list, read as a tuple."""

    def read(value: Any, where: str) -> tuple[Any, ...]:
        if type(value) is not list:
            raise refuse(where, show(value), "a list")
        if not least <= len(value) <= most:
            raise refuse(where, f"{len(value)} entries", f"{least} to {most}")
        return tuple(item(entry, f"{where}[{index}]") for index, entry in enumerate(value))

    return read


def optional(reader: Reader) -> Reader:
    """What `reader` reads, or null."""
    return lambda value, where: None if value is None else reader(value, where)


def either(readers: Mapping[type, Reader]) -> Reader:
    """What the reader for the value's own type reads."""

    def read(value: Any, where: str) -> Any:
        if type(value) not in readers:
            names = {list: "a list", int: "a whole number", str: "a text"}
            raise refuse(where, show(value), " or ".join(names[kind] for kind in readers))
        return readers[type(value)](value, where)

    return read


def record(
    make: Callable[..., Any], required: Mapping[str, Reader], optional: Mapping[str, Reader] | None = None
) -> Reader:
    """An object whose names are known; `make` is called with what was read."""
    known = {**required, **(optional or {})}

    def read(value: Any, where: str) -> Any:
        if type(value) is not dict:
            raise refuse(where, show(value), f"an object with {', '.join(required)}")
        for name in value:
            if name not in known:
                raise refuse(where, f"the name {name[:40]!r}", f"of {', '.join(known)}", nearest(name, list(known)))
        for name in required:
            if name not in value:
                raise refuse(where, f"no {name!r}", f"an object with {', '.join(required)}")
        return make(**{name: known[name](entry, f"{where}.{name}") for name, entry in value.items()})

    return read


def show(value: Any) -> str:
    """A value in a few characters."""
    shown = json.dumps(value, default=repr)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
