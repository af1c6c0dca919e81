from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from shardproof.case import Case, Group, Operation, Parameter
from shardproof.case_file import encode, write_case
from tests.cli.conftest import Run
from tests.search.planted import Planted

Plant = Callable[[Planted], None]
CASE = Case((Group("main", (0, 1)),), (Parameter("p", (3,)),), (Operation("register"), Operation("gather")))


def wide(case: Case) -> bool:
    return case.world_size > 1


@pytest.fixture
def case_file(tmp_path: Path) -> str:
    write_case(tmp_path / "case.json", CASE)
    return str(tmp_path / "case.json")


def test_the_same_verdict(run: Run, plant: Plant, case_file: str) -> None:
    planted = Planted({"a": wide, "b": lambda _: False})
    plant(planted)
    ended = run("replay", case_file)
    assert (ended.code, ended.out.splitlines()[-1]) == (1, "BROKEN: a")
    assert "planted breaks a" in ended.out
    assert planted.judged == [CASE]


def test_a_case_that_holds(run: Run, plant: Plant, case_file: str) -> None:
    plant(Planted({"a": lambda _: False, "b": lambda _: False}))
    ended = run("replay", case_file)
    assert (ended.code, ended.out.splitlines()[-1]) == (0, "2 laws judged, all hold")


def test_a_case_that_no_law_can_judge(run: Run, plant: Plant, case_file: str) -> None:
    plant(Planted({}, unjudged=("a",)))
    ended = run("replay", case_file)
    assert ended.code == 2
    assert "could not judge" in ended.err


def test_every_failure_of_a_run(run: Run, plant: Plant) -> None:
    planted = Planted({"a": wide, "b": lambda case: len(case.parameters) > 1})
    plant(planted)
    assert run("check", "--examples", "60", "--json", "r.json").code == 1
    for index, law in enumerate(("a", "b")):
        planted.judged.clear()
        failure = json.loads(Path("r.json").read_text())["failures"][index]
        ended = run("replay", "r.json", "--index", str(index))
        assert ended.code == 1
        assert law in ended.out.splitlines()[-1]
        assert [json.loads(encode(case)) for case in planted.judged] == [failure["case"]]


def test_a_law_that_is_not_broken_this_time(run: Run, plant: Plant) -> None:
    planted = Planted({"a": wide})
    plant(planted)
    run("check", "--examples", "20", "--json", "r.json")
    planted.faults = {"a": lambda _: False}
    ended = run("replay", "r.json")
    assert ended.code == 0
    assert "a, for which this case was saved, is not broken this time" in ended.out


def test_a_script_is_written(run: Run, plant: Plant, case_file: str) -> None:
    plant(Planted({"a": wide}))
    assert run("replay", case_file, "--script", "show.py").code == 1
    text = Path("show.py").read_text()
    compile(text, "show.py", "exec")
    assert "'shape': [3]" in text
    assert "import shardproof" not in text


WRONG: list[tuple[list[str], list[str]]] = [
    ([], ["FILE"]),
    (["none.json"], ["none.json", "No such file"]),
    (["."], ["cannot be read"]),
    (["cut.json"], ["cut.json", "may be cut short"]),
    (["case.json", "--index", "1"], ["holds one case"]),
    (["case.json", "--index", "-1"], ["--index"]),
    (["case.json", "--impl", "gpu_imp"], ["did you mean gpu_impl?"]),
    (["case.json", "--device", "tpu"], ["there is no device 'tpu'"]),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG, ids=[" ".join(row[0]) for row in WRONG])
def test_wrong_use(run: Run, case_file: str, arguments: list[str], words: list[str]) -> None:
    Path("cut.json").write_text(Path(case_file).read_text()[:50])
    ended = run("replay", *arguments)
    assert ended.code == 2
    assert all(word in ended.err for word in words), ended.err
