from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from shardproof.case import (
    Case,
    Delay,
    Divergence,
    Group,
    LayoutSpec,
    Operation,
    Parameter,
)
from shardproof.case_file import (
    MOST_BYTES,
    as_python,
    decode,
    decode_trusted,
    encode,
    read_case,
    to_json,
    write_case,
)
from shardproof.errors import UsageError
from shardproof.layouts import KINDS
from shardproof.strategies import cases
from tests.search.planted import describe

SMALLEST = Case((Group("main", (0,)),), (Parameter("p", (1,)),), (Operation("register"),))
# Every field differs from its default somewhere.
FULL = Case(
    groups=(Group("main", (1, 2)), Group("other", (0,))),
    parameters=(
        Parameter(
            'a "quoted" name',
            (2, 3),
            "bfloat16",
            strides=(1, 2),
            storage_offset=3,
            grad_buffer="partition",
            grad_dtype="float32",
            comm_dtype="float16",
        ),
        Parameter("b", (), frozen=True, grad_buffer="absent"),
        Parameter("c", (), tied_to="b"),
    ),
    program=(
        Operation("register"),
        Operation("reduce", ("b", 'a "quoted" name'), value=7, reduction="mean"),
        Operation("save"),
        Operation("load", group="other"),
    ),
    layout=LayoutSpec(
        "bucket",
        alignment=2,
        bucket_numel=64,
        parameter_alignment=4,
        bucket_alignment=8,
    ),
    divergences=(
        Divergence(0, "shape", "b", (5, 1)),
        Divergence(1, "shard_numel", "b", -1),
        Divergence(1, "dtype", "b", "int8"),
        Divergence(1, "order"),
    ),
    delays=(Delay(1, 2, 5),),
    seed=9,
)
LAYOUTS = (
    LayoutSpec("chunk", dim=1),
    LayoutSpec("ragged", units=(3, 4)),
    LayoutSpec("grouped", alignment=2, group_size=2),
    LayoutSpec("grouped_chunk", dim=1, group_size=2),
    LayoutSpec("two_dimensional", alignment=2, dim=1, mesh=(1, 2)),
)
ANY = describe(layouts=("flat_padded", "chunk"), alignments=(1, 2, 8))
EVERY = describe(layouts=KINDS, alignments=(1, 2, 8))


def rebuilt(text: str) -> Case:
    names: dict[str, Any] = {}
    exec(text, names)
    made: Case = names["case"]
    return made


@pytest.mark.parametrize("case", [SMALLEST, FULL], ids=["smallest", "full"])
def test_there_and_back(case: Case) -> None:
    assert decode(encode(case)) == decode_trusted(encode(case)) == rebuilt(as_python(case)) == case


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.kind)
def test_layouts_there_and_back(layout: LayoutSpec) -> None:
    case = Case((Group("main", (0, 1)),), (Parameter("p", (2, 3)),), (Operation("register"),), layout)
    assert decode(encode(case)) == decode_trusted(encode(case)) == rebuilt(as_python(case)) == case


@given(cases(EVERY))
@settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_whatever_is_drawn_there_and_back(case: Case) -> None:
    assert decode(encode(case)) == decode_trusted(encode(case)) == rebuilt(as_python(case)) == case


def test_defaults_are_left_out() -> None:
    assert encode(SMALLEST) == (
        '{"version":1,"groups":[{"name":"main","ranks":[0]}],'
        '"parameters":[{"id":"p","shape":[1]}],"program":[{"kind":"register"}]}'
    )
    assert as_python(SMALLEST) == (
        "from shardproof.case import Case, Group, Operation, Parameter\n\n"
        "case = Case(\n"
        '    groups=(Group("main", (0,)),),\n'
        '    parameters=(Parameter("p", (1,)),),\n'
        '    program=(Operation("register"),),\n'
        ")\n"
    )


def test_long_cases_are_broken_one_item_a_line() -> None:
    text = as_python(FULL)
    assert max(map(len, text.splitlines())) <= 120
    assert '\n        Operation("save"),\n' in text


def test_a_file_there_and_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "case.json"
    write_case(path, FULL)
    assert read_case(path) == FULL
    assert [file.name for file in path.parent.iterdir()] == ["case.json"]


def test_a_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        write_case(tmp_path / "file" / "case.json", SMALLEST)


@pytest.mark.parametrize("length", range(len(encode(SMALLEST))))
def test_cut_short(length: int) -> None:
    with pytest.raises(UsageError, match=r"the file may be cut short"):
        decode(encode(SMALLEST)[:length])


def put(*path: str | int, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(target: Any) -> None:
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = value

    return change


def both(*changes: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    def change(target: dict[str, Any]) -> None:
        for one in changes:
            one(target)

    return change


def drop(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda target: target.pop(name)


DEFAULT_GROUP = {"name": "main", "ranks": [0]}
# What is changed in the smallest case, the place that the error names, and words of it.
HOSTILE: list[tuple[Callable[[dict[str, Any]], None], str, str]] = [
    (put("version", value=2), "case.version", "observed 2, expected 1"),
    (put("version", value="1"), "case.version", "expected 1"),
    (put("version", value=True), "case.version", "one of 1"),
    (drop("version"), "case", "no 'version'"),
    (drop("groups"), "case", "no 'groups'"),
    (put("colour", value=1), "case", "the name 'colour'"),
    (put("progam", value=1), "case", "did you mean program?"),
    (put("groups", value={}), "case.groups", "expected a list"),
    (put("groups", value=[]), "case.groups", "no group named 'main'"),
    (put("groups", 0, "name", value="mian"), "case.groups", "no group named 'main'"),
    (put("groups", 0, "name", value="main\x1b[2J"), "case.groups[0].name", "printable"),
    (put("groups", value=[DEFAULT_GROUP, DEFAULT_GROUP]), "case.groups[1]", "'main' again"),
    (put("groups", 0, "ranks", value=[]), "case.groups[0].ranks", "no rank"),
    (put("groups", 0, "ranks", value=[1, 1]), "case.groups[0].ranks", "each rank once"),
    (put("groups", 0, "ranks", value=[1, 0]), "case.groups[0].ranks", "increasing"),
    (put("groups", 0, "ranks", value=[-1]), "case.groups[0].ranks[0]", "observed -1"),
    (put("groups", 0, "ranks", value=[0.0]), "case.groups[0].ranks[0]", "observed 0.0"),
    (put("groups", 0, "ranks", value=[True]), "case.groups[0].ranks[0]", "observed true"),
    (put("groups", 0, "ranks", value=[1024]), "case.groups[0].ranks[0]", "0 to 1023"),
    (put("groups", 0, "ranks", value=list(range(1025))), "case.groups[0].ranks", "1025 entries"),
    (put("parameters", value=[]), "case.parameters", "at least one"),
    (put("parameters", 0, "id", value=""), "case.parameters[0].id", "1 to 200"),
    (put("parameters", 0, "id", value=7), "case.parameters[0].id", "observed 7"),
    (put("parameters", 0, "id", value="x" * 201), "case.parameters[0].id", "1 to 200"),
    (put("parameters", 0, "shape", value=[-3]), "case.parameters[0].shape[0]", "observed -3"),
    (put("parameters", 0, "shape", value=[1] * 9), "case.parameters[0].shape", "9 entries"),
    (put("parameters", 0, "shape", value=[1 << 40, 1 << 40]), "case.parameters[0].shape", "at most 2^62"),
    (put("parameters", 0, "shape", value=[1 << 40, 1 << 40, 0]), "case.parameters[0].shape", "at most 2^62"),
    (put("parameters", 0, "shape", value=[(1 << 28) + 1]), "case.parameters", "bytes to move"),
    (put("parameters", 0, "storage_offset", value=1 << 30), "case.parameters", "bytes to move"),
    (put("parameters", 0, "dtype", value="float23"), "case.parameters[0].dtype", "did you mean float32?"),
    (put("parameters", 0, "frozen", value=1), "case.parameters[0].frozen", "observed 1"),
    (put("parameters", 0, "strides", value=[1, 1]), "case.parameters[0].strides", "2 strides"),
    (put("parameters", 0, "tied_to", value="q"), "case.parameters[0].tied_to", "an earlier parameter"),
    (put("parameters", 0, "tied_to", value="p"), "case.parameters[0].tied_to", "an earlier parameter"),
    (put("parameters", 0, "grad_buffer", value="half"), "case.parameters[0].grad_buffer", '"partition"'),
    (put("parameters", value=[{"id": "p", "shape": [1]}] * 2), "case.parameters[1]", "'p' again"),
    (put("parameters", value=[{"id": "p", "shape": [2, 2], "strides": [0, 1]}]), "case.parameters[0].strides", "apart"),
    (put("parameters", value=[{"id": "p", "shape": [2, 3], "strides": [2, 1]}]), "case.parameters[0].strides", "apart"),
    (
        put("parameters", value=[{"id": "p", "shape": [1]}, {"id": "q", "shape": [2], "tied_to": "p"}]),
        "case.parameters[1].tied_to",
        "the same shape and dtype",
    ),
    (put("program", value=[]), "case.program", "at least one"),
    (put("program", value=[{"kind": "register"}] * 1001), "case.program", "1001 entries"),
    (put("program", 0, "kind", value="gathr"), "case.program[0].kind", "did you mean gather?"),
    (put("program", 0, "kind", value=None), "case.program[0].kind", "observed null"),
    (put("program", 0, "parameters", value=["q"]), "case.program[0].parameters[0]", "observed 'q'"),
    (put("program", 0, "parameters", value=["p", "p"]), "case.program[0].parameters", "each id once"),
    (put("program", 0, "group", value="else"), "case.program[0].group", "one of main"),
    (put("program", 0, "value", value=-1), "case.program[0].value", "observed -1"),
    (put("program", 0, "reduction", value="max"), "case.program[0].reduction", '"mean"'),
    (put("program", value=[{"kind": "gather"}]), "case.program[0]", "not registered"),
    (put("layout", value={}), "case.layout", "no 'kind'"),
    (put("layout", value={"kind": "flat"}), "case.layout.kind", "did you mean flat_padded?"),
    (put("layout", value={"kind": "flat_padded", "alignment": 0}), "case.layout.alignment", "observed 0"),
    (put("layout", value={"kind": "chunk", "dim": 1}), "case.parameters[0].shape", "a dimension 1"),
    (put("layout", value={"kind": "grouped", "group_size": 2}), "case.layout.group_size", "a divisor"),
    (put("layout", value={"kind": "two_dimensional", "mesh": [1, 2]}), "case.layout.mesh", "a product of 1"),
    (put("layout", value={"kind": "two_dimensional"}), "case.layout.mesh", "two_dimensional needs it"),
    (put("layout", value={"kind": "ragged"}), "case.layout.units", "ragged needs it"),
    (put("layout", value={"kind": "ragged", "units": [1], "dim": 1}), "case.layout.dim", "ragged does not use it"),
    (put("layout", value={"kind": "flat_padded", "bucket_numel": 7}), "case.layout.bucket_numel", "does not use it"),
    (
        both(
            put("layout", value={"kind": "grouped", "group_size": 1}),
            put("groups", 0, "ranks", value=[0, 1]),
            put("layout", "group_size", value=3),
        ),
        "case.layout.group_size",
        "a divisor of the world size 2",
    ),
    (
        both(put("layout", value={"kind": "two_dimensional", "mesh": [1, 1]}), put("parameters", 0, "shape", value=[])),
        "case.parameters[0].shape",
        "a dimension 0",
    ),
    (
        both(
            put("layout", value={"kind": "bucket"}),
            put("parameters", value=[{"id": "p", "shape": [1]}, {"id": "q", "shape": [1]}]),
            put("program", 0, "parameters", value=["q"]),
        ),
        "case.program[0].parameters",
        "all of them, in order",
    ),
    (
        both(
            put("layout", value={"kind": "chunk"}),
            put("divergences", value=[{"rank": 0, "kind": "extra", "value": []}]),
        ),
        "case.divergences[0].value",
        "a dimension 0 to chunk",
    ),
    (
        both(
            put("parameters", value=[{"id": "p", "shape": [1]}, {"id": "q", "shape": [1], "tied_to": "p"}]),
            put("divergences", value=[{"rank": 0, "kind": "shard_numel", "parameter": "q", "value": 1}]),
        ),
        "case.divergences[0].parameter",
        "one that is not tied",
    ),
    (put("divergences", value=[{"rank": 1, "kind": "order"}]), "case.divergences[0].rank", "below the world size 1"),
    (put("divergences", value=[{"rank": 0, "kind": "id"}]), "case.divergences[0].parameter", "the id of a parameter"),
    (
        put("divergences", value=[{"rank": 0, "kind": "id", "parameter": "p"}]),
        "case.divergences[0].value",
        "expected an id",
    ),
    (
        put("divergences", value=[{"rank": 0, "kind": "dtype", "parameter": "p", "value": "f"}]),
        "case.divergences[0].value",
        "float32",
    ),
    (
        put("divergences", value=[{"rank": 0, "kind": "shape", "parameter": "p", "value": [1 << 40]}]),
        "case.divergences[0].value",
        "a gigabyte",
    ),
    (
        put("divergences", value=[{"rank": 0, "kind": "shard_numel", "parameter": "p", "value": 1 << 40}]),
        "case.divergences[0].value",
        "how many elements",
    ),
    (put("divergences", value=[{"rank": 0, "kind": "extra", "value": {}}]), "case.divergences[0].value", "observed {}"),
    (put("divergences", value=[{"rank": 0, "kind": "order", "value": 1}]), "case.divergences[0].value", "null"),
    (put("delays", value=[{"rank": 0, "operation": 0}]), "case.delays[0]", "no 'milliseconds'"),
    (
        put("delays", value=[{"rank": 0, "operation": 0, "milliseconds": 1 << 30}]),
        "case.delays[0].milliseconds",
        "0 to 60000",
    ),
    (put("delays", value=[{"rank": 1, "operation": 0, "milliseconds": 1}]), "case.delays[0].rank", "below the world"),
    (put("delays", value=[{"rank": 0, "operation": 1, "milliseconds": 1}]), "case.delays[0].operation", "one of the 1"),
    (put("seed", value=-1), "case.seed", "observed -1"),
    (put("seed", value=1 << 63), "case.seed", "expected a whole number"),
]


@pytest.mark.parametrize(("change", "place", "words"), HOSTILE, ids=[f"{n}-{row[1]}" for n, row in enumerate(HOSTILE)])
def test_hostile(change: Callable[[dict[str, Any]], None], place: str, words: str) -> None:
    value = json.loads(encode(SMALLEST))
    change(value)
    with pytest.raises(UsageError) as caught:
        decode(json.dumps(value))
    assert caught.value.where == place
    assert words in str(caught.value)


NO_JSON: list[tuple[str | bytes, str]] = [
    ("", "JSON"),
    ("{", "JSON"),
    ("[]", "an object with"),
    ("null", "an object with"),
    ('"text"', "an object with"),
    ("[" * 100_000, "nested too deeply"),
    (b"\xff\xfe\x00", "JSON"),
    ('{"version":1,"version":1}', "'version' twice"),
    ('{"version":' + "9" * 5000 + "}", "JSON in UTF-8"),
    ('{"version":NaN}', "expected 1"),
    ('{"version":1e400}', "expected 1"),
]


@pytest.mark.parametrize(("text", "words"), NO_JSON, ids=range(len(NO_JSON)))
def test_no_case_at_all(text: str | bytes, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        decode(text)


def test_layouts_of_true_size_move_nothing() -> None:
    huge = Parameter("p", (1 << 31, 1 << 30), "float64")
    asked = Case((Group("main", (0, 1)),), (huge,), (Operation("layout"),))
    assert decode(encode(asked)) == asked


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_case(tmp_path / "none.json")


def test_a_file_far_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(UsageError, match="more than"):
        read_case(tmp_path / "large.json")


def test_the_json_is_plain() -> None:
    assert json.loads(json.dumps(to_json(FULL))) == json.loads(encode(FULL))
