"""A case as JSON, both ways.

`encode` is compact and quick, because every case travels to the ranks in this form. `decode` believes nothing: a file
may be cut short, of another version, or hostile, and each refusal names the place in it. `decode_trusted` is for a
rank, which is sent only what `encode` wrote.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, get_args

from shardproof.atomic import write_text
from shardproof.case import (
    OPERATIONS,
    VERSION,
    Case,
    Delay,
    Divergence,
    DivergenceKind,
    GradBuffer,
    Group,
    LayoutKind,
    LayoutSpec,
    Operation,
    Parameter,
)
from shardproof.case_python import as_python
from shardproof.case_rules import DTYPE_NAMES, MOST_RANKS, check
from shardproof.errors import UsageError
from shardproof.json_reading import (
    Reader,
    either,
    integer,
    loads,
    one_of,
    optional,
    record,
    refuse,
    sequence,
    text,
)

__all__ = [
    "as_python",
    "decode",
    "decode_trusted",
    "encode",
    "from_json",
    "read_bytes",
    "read_case",
    "to_json",
    "write_case",
]

# A case of a thousand operations is some hundred kilobytes; more is no case.
MOST_BYTES = 16 << 20
_WIDE = 1 << 62

_PLAIN_LAYOUT = LayoutSpec()


def encode(case: Case) -> str:
    """The case as one line of JSON; what has its default is left out. `decode` gives an equal case."""
    return _DUMPS(to_json(case))


_DUMPS = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def to_json(case: Case) -> dict[str, Any]:
    """The case as JSON's own types."""
    value: dict[str, Any] = {
        "version": case.version,
        "groups": [{"name": group.name, "ranks": group.ranks} for group in case.groups],
        "parameters": [_parameter(parameter) for parameter in case.parameters],
        "program": [_operation(operation) for operation in case.program],
    }
    if case.layout != _PLAIN_LAYOUT:
        value["layout"] = _layout(case.layout)
    if case.divergences:
        value["divergences"] = [_divergence(divergence) for divergence in case.divergences]
    if case.delays:
        value["delays"] = [
            {"rank": delay.rank, "operation": delay.operation, "milliseconds": delay.milliseconds}
            for delay in case.delays
        ]
    if case.seed:
        value["seed"] = case.seed
    return value


# One function a type, written out: walking dataclass fields costs five times as much.


def _parameter(parameter: Parameter) -> dict[str, Any]:
    value: dict[str, Any] = {"id": parameter.id, "shape": parameter.shape}
    if parameter.dtype != "float32":
        value["dtype"] = parameter.dtype
    if parameter.strides is not None:
        value["strides"] = parameter.strides
    if parameter.storage_offset:
        value["storage_offset"] = parameter.storage_offset
    if parameter.frozen:
        value["frozen"] = True
    if parameter.tied_to is not None:
        value["tied_to"] = parameter.tied_to
    if parameter.grad_buffer != "full":
        value["grad_buffer"] = parameter.grad_buffer
    if parameter.grad_dtype is not None:
        value["grad_dtype"] = parameter.grad_dtype
    if parameter.comm_dtype is not None:
        value["comm_dtype"] = parameter.comm_dtype
    return value


def _operation(operation: Operation) -> dict[str, Any]:
    value: dict[str, Any] = {"kind": operation.kind}
    if operation.parameters:
        value["parameters"] = operation.parameters
    if operation.group != "main":
        value["group"] = operation.group
    if operation.value:
        value["value"] = operation.value
    if operation.reduction != "sum":
        value["reduction"] = operation.reduction
    return value


def _layout(layout: LayoutSpec) -> dict[str, Any]:
    names = LayoutSpec.__slots__
    return {
        name: getattr(layout, name)
        for name in names
        if name == "kind" or getattr(layout, name) != getattr(_PLAIN_LAYOUT, name)
    }


def _divergence(divergence: Divergence) -> dict[str, Any]:
    value: dict[str, Any] = {"rank": divergence.rank, "kind": divergence.kind}
    if divergence.parameter is not None:
        value["parameter"] = divergence.parameter
    if divergence.value is not None:
        value["value"] = divergence.value
    return value


def decode(text: str | bytes, where: str = "case") -> Case:
    """The case that a JSON text holds. Raises UsageError, naming the place, for anything that is not a valid case."""
    return from_json(loads(text, where), where)


def from_json(value: Any, where: str = "case") -> Case:
    """The case that a JSON value holds; `where` names the value in an error."""
    if isinstance(value, dict) and value.get("version", VERSION) != VERSION:
        raise refuse(
            f"{where}.version",
            repr(value["version"])[:40],
            str(VERSION),
            "it was written by another release of Shardproof; replay it with that one, or search again",
        )
    case: Case = _CASE(value, where)
    check(case, where)
    return case


def decode_trusted(text: str) -> Case:
    """The case that `encode` wrote; nothing is checked."""
    value = json.loads(text)
    return Case(
        groups=tuple(Group(group["name"], tuple(group["ranks"])) for group in value["groups"]),
        parameters=tuple(Parameter(**_tuples(parameter, _LISTS)) for parameter in value["parameters"]),
        program=tuple(Operation(**_tuples(operation, _LISTS)) for operation in value["program"]),
        layout=LayoutSpec(**_tuples(value["layout"], _LISTS)) if "layout" in value else _PLAIN_LAYOUT,
        divergences=tuple(Divergence(**_tuples(item, _LISTS)) for item in value.get("divergences", ())),
        delays=tuple(Delay(**item) for item in value.get("delays", ())),
        seed=value.get("seed", 0),
        version=value["version"],
    )


_LISTS = ("shape", "strides", "parameters", "units", "mesh", "value")


def _tuples(value: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    for name in names:
        if type(value.get(name)) is list:
            value[name] = tuple(value[name])
    return value


def read_case(path: Path) -> Case:
    """The case in a file. Raises UsageError where there is none, or where it is not a valid one."""
    return decode(read_bytes(path), str(path))


def read_bytes(path: Path) -> bytes:
    """A file's bytes. Raises UsageError where it cannot be read or is far too large for what we write."""
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError("this file cannot be read", where=str(path), observed=error.strerror or str(error)) from error
    if len(content) > MOST_BYTES:
        raise refuse(str(path), f"more than {MOST_BYTES} bytes", "a case file or a results.json")
    return content


def write_case(path: Path, case: Case) -> None:
    """Write a case file, readable by people; the file is there whole or not at all."""
    write_text(path, f"{json.dumps(to_json(case), indent=1)}\n")


def _divergence_value(value: Any, where: str) -> Any:
    return either({list: _SHAPE, int: integer(-_WIDE, _WIDE), str: text()})(value, where)


def _words(words: Any) -> Sequence[str]:
    return tuple(get_args(words))


_SHAPE: Reader = sequence(integer(0, _WIDE), most=8)
_DTYPE = one_of(DTYPE_NAMES)
_CASE = record(
    Case,
    required={
        "version": one_of((VERSION,)),
        "groups": sequence(
            record(Group, required={"name": text(), "ranks": sequence(integer(0, MOST_RANKS - 1), most=MOST_RANKS)}),
            most=64,
        ),
        "parameters": sequence(
            record(
                Parameter,
                required={"id": text(), "shape": _SHAPE},
                optional={
                    "dtype": _DTYPE,
                    "strides": optional(_SHAPE),
                    "storage_offset": integer(0, _WIDE),
                    "frozen": one_of((True, False)),
                    "tied_to": optional(text()),
                    "grad_buffer": one_of(_words(GradBuffer)),
                    "grad_dtype": optional(_DTYPE),
                    "comm_dtype": optional(_DTYPE),
                },
            ),
            most=10_000,
        ),
        "program": sequence(
            record(
                Operation,
                required={"kind": one_of(OPERATIONS)},
                optional={
                    "parameters": sequence(text(), most=10_000),
                    "group": text(),
                    "value": integer(0, _WIDE),
                    "reduction": one_of(("sum", "mean")),
                },
            ),
            most=1000,
        ),
    },
    optional={
        "layout": record(
            LayoutSpec,
            required={"kind": one_of(_words(LayoutKind))},
            optional={
                "alignment": integer(1, _WIDE),
                "dim": integer(0, 7),
                "bucket_numel": optional(integer(1, _WIDE)),
                "parameter_alignment": integer(1, _WIDE),
                "bucket_alignment": integer(1, _WIDE),
                "units": sequence(integer(1, _WIDE), most=10_000),
                "group_size": optional(integer(1, MOST_RANKS)),
                "mesh": optional(sequence(integer(1, MOST_RANKS), most=2, least=2)),
                "bucket_least": optional(integer(1, _WIDE)),
            },
        ),
        "divergences": sequence(
            record(
                Divergence,
                required={"rank": integer(0, MOST_RANKS - 1), "kind": one_of(_words(DivergenceKind))},
                optional={"parameter": optional(text()), "value": optional(_divergence_value)},
            ),
            most=100,
        ),
        "delays": sequence(
            record(
                Delay,
                required={
                    "rank": integer(0, MOST_RANKS - 1),
                    "operation": integer(0, 999),
                    "milliseconds": integer(0, 60_000),
                },
            ),
            most=1000,
        ),
        "seed": integer(0, _WIDE),
    },
)
