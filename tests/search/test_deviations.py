from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet

from invariants import Violation
from shardproof.case import Case, Divergence, Group, LayoutSpec, Operation, Parameter
from shardproof.deviations import NAMES, Condition, Deviation, excused_by, known_deviations, read_deviations
from shardproof.errors import UsageError

CASE = Case(
    groups=(Group("main", (0, 1, 2)),),
    parameters=(
        Parameter("w", (4, 6), "bfloat16", strides=(1, 4), storage_offset=2),
        Parameter("s", (7,), frozen=True),
    ),
    program=(Operation("register"), Operation("gather")),
    layout=LayoutSpec("chunk", dim=0),
    divergences=(Divergence(0, "refuses"),),
)
ABOUT_W = Violation("round-trip", "TypeError: no scalars", "done", rank=0, parameter="w", step=1)
ABOUT_S = Violation("round-trip", "wrong", "right", parameter="s")
ABOUT_NONE = Violation("round-trip", "wrong", "right")

# A condition, and whether it holds for a violation of w, of s, and of no parameter in particular.
CONDITIONS: list[tuple[str, bool, bool, bool]] = [
    ("True", True, True, True),
    ("False", False, False, False),
    ("world_size == 3", True, True, True),
    ("1 < world_size <= 3", True, True, True),
    ("1 < world_size < 3", False, False, False),
    ("parameters == 2 and layout == 'chunk' and dim == 0 and alignment == 1", True, True, True),
    ("'chunk' in features", True, True, True),
    ("'reduce' in operations", False, False, False),
    ("'gather' in operations and 'reduce' not in operations", True, True, True),
    ("divergence == 'refuses'", True, True, True),
    ("ndim == 1", False, True, True),
    ("not ndim > 1", False, True, True),
    ("numel == 24", True, False, True),
    ("shape == [4, 6]", True, False, True),
    ("dim_size == 4", True, False, True),
    ("dim_size % world_size == 1 and ndim > 1", True, False, True),
    ("numel // world_size * world_size != numel", False, True, True),
    ("numel + 1 == 25 and numel - 1 == 23 and numel * 2 == 48", True, False, True),
    ("dtype in ('bfloat16', 'float16')", True, False, True),
    ("grad_dtype == dtype and comm_dtype == dtype", True, True, True),
    ("strided and storage_offset == 2", True, False, True),
    ("frozen or tied", False, True, True),
    ("grad_buffer == 'full'", True, True, True),
    ("operation == 'gather'", True, False, False),
    ("operation == ''", False, True, True),
    ("'no scalars' in observed", True, False, False),
    ("expected == 'right'", False, True, True),
    ("numel > -1", True, True, True),
    # What makes no sense for the facts at hand does not hold, and raises nothing.
    ("dtype > 3", False, False, False),
    ("numel // 0 == 1", False, False, False),
    ("dtype * 1000000000 == dtype", False, False, False),
    ("'%1000000000d' % numel == ''", False, False, False),
]


@pytest.mark.parametrize(("text", "of_w", "of_s", "of_none"), CONDITIONS, ids=[row[0] for row in CONDITIONS])
def test_condition(text: str, of_w: bool, of_s: bool, of_none: bool) -> None:
    condition = Condition.read(text, "here")
    holds = [condition.holds(CASE, violation) for violation in (ABOUT_W, ABOUT_S, ABOUT_NONE)]
    assert holds == [of_w, of_s, of_none]


NO_CONDITIONS: list[tuple[str, str]] = [
    ("", "invalid syntax"),
    ("numel ==", "invalid syntax"),
    ("import os", "invalid syntax"),
    ("numel; dim", "invalid syntax"),
    ("numell == 1", "did you mean numel?"),
    ("__import__('os').system('true')", "literals, names"),
    ("open('/etc/passwd')", "literals, names"),
    ("dtype.__class__", "literals, names"),
    ("shape[0] == 1", "literals, names"),
    ("lambda: 1", "literals, names"),
    ("[x for x in shape]", "literals, names"),
    ("f'{numel}'", "literals, names"),
    ("numel ** 9999", "literals, names"),
    ("numel << 9999", "literals, names"),
    ("1.5 < numel", "literals, names"),
    ("numel if frozen else 1", "literals, names"),
    ("(numel := 1)", "literals, names"),
    ("numel is 1", "literals, names"),
    ("numel == 1 or " * 60 + "frozen", "at most 500"),
    ("(" * 240 + "1" + ")" * 240, "this is no condition"),
    ("numel == 1\0", "this is no condition"),
]


@pytest.mark.parametrize(("text", "words"), NO_CONDITIONS, ids=[row[0][:30].strip("\0") for row in NO_CONDITIONS])
def test_no_condition(text: str, words: str) -> None:
    with pytest.raises(UsageError, match="this is no condition") as caught:
        Condition.read(text, "file.toml.deviation[0].condition")
    assert words in str(caught.value)
    assert caught.value.where == "file.toml.deviation[0].condition"


def test_every_name_has_a_fact() -> None:
    for name in NAMES:
        assert Condition.read(f"{name} == {name}", "here").holds(CASE, ABOUT_W)


def entry(**changes: Any) -> Deviation:
    fields: dict[str, Any] = {
        "law": "round-trip",
        "condition": Condition.read("ndim == 1", "here"),
        "case": CASE,
        "reason": "",
        "link": "",
    }
    return Deviation(**(fields | changes))


# An entry, the violation, the device, and whether the entry covers it.
COVERS: list[tuple[Deviation, Violation, str, bool]] = [
    (entry(), ABOUT_S, "cpu", True),
    (entry(), ABOUT_W, "cpu", False),
    (entry(law="shape-restored"), ABOUT_S, "cpu", False),
    (entry(device="cpu"), ABOUT_S, "cpu", True),
    (entry(device="cuda"), ABOUT_S, "cpu", False),
]


@pytest.mark.parametrize(("known", "violation", "device", "covered"), COVERS, ids=range(len(COVERS)))
def test_covers(known: Deviation, violation: Violation, device: str, covered: bool) -> None:
    assert excused_by((known,), CASE, violation, device) == (known if covered else None)


# An entry, a device, a torch, and whether the entry is about them.
APPLIES: list[tuple[Deviation, str, str, bool]] = [
    (entry(), "cpu", "2.13.0+cpu", True),
    (entry(device="cuda"), "cpu", "2.13.0", False),
    (entry(torch=SpecifierSet("<2.13")), "cpu", "2.11.0+cu130", True),
    (entry(torch=SpecifierSet("<2.13")), "cpu", "2.13.0+cpu", False),
    (entry(torch=SpecifierSet(">=2.13")), "cpu", "2.14.0.dev20260101+cpu", True),
    (entry(torch=SpecifierSet("<2.13"), device="cuda"), "cpu", "2.11.0", False),
]


@pytest.mark.parametrize(("known", "device", "torch", "applies"), APPLIES, ids=range(len(APPLIES)))
def test_applies(known: Deviation, device: str, torch: str, applies: bool) -> None:
    assert known.applies(device, torch) is applies


FILE = """
[[deviation]]
law = "round-trip"
condition = "ndim == 0 and world_size > 1"
reason = "a scalar has no dimension to chunk"
link = "https://example.org/scalars"
device = "cpu"
[deviation.case]
version = 1
groups = [{name = "main", ranks = [0, 1]}]
parameters = [{id = "p0", shape = []}]
program = [{kind = "register"}, {kind = "gather"}]
"""


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "known.toml"
    path.write_text(FILE)
    (known,) = read_deviations(path)
    assert (known.law, known.condition.text, known.device) == ("round-trip", "ndim == 0 and world_size > 1", "cpu")
    assert known.case == Case(
        (Group("main", (0, 1)),), (Parameter("p0", ()),), (Operation("register"), Operation("gather"))
    )


# What is replaced in the file by what, and the place and words of the error.
BROKEN_FILES: list[tuple[str, str, str, str]] = [
    ('"round-trip"', "", "", "TOML"),
    ("[[deviation]]", "[deviation]", ".deviation", "a list"),
    ("[[deviation]]", "[[deviations]]", "", "did you mean deviation?"),
    ('link = "https://example.org/scalars"', "", ".deviation[0]", "no 'link'"),
    ("reason", "reasons", ".deviation[0]", "did you mean reason?"),
    ("ndim ==", "ndims ==", ".deviation[0].condition", "did you mean ndim?"),
    ('"ndim == 0 and world_size > 1"', "1", ".deviation[0].condition", "a text"),
    ('"cpu"', '"tpu"', ".deviation[0].device", '"cuda"'),
    ('device = "cpu"', 'torch = "2.13 and older"', ".deviation[0].torch", 'such as "<2.13"'),
    ("shape = []", "shape = [-1]", ".deviation[0].case.parameters[0].shape[0]", "observed -1"),
    ("version = 1", "version = 2", ".deviation[0].case.version", "observed 2"),
]


@pytest.mark.parametrize(("old", "new", "place", "words"), BROKEN_FILES, ids=range(len(BROKEN_FILES)))
def test_a_broken_file(tmp_path: Path, old: str, new: str, place: str, words: str) -> None:
    path = tmp_path / "known.toml"
    assert old in FILE
    path.write_text(FILE.replace(old, new))
    with pytest.raises(UsageError) as caught:
        read_deviations(path)
    assert caught.value.where == f"{path}{place}"
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["no_such_implementation", "pkg.mod:attr", "../condition", ""])
def test_an_implementation_without_a_file(name: str) -> None:
    assert known_deviations(name) == ()
