from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shardproof.case import Case, Group, Operation, Parameter
from shardproof.case_file import encode, from_json, read_case, write_case
from shardproof.deviations import Condition, Deviation
from shardproof.errors import UsageError
from shardproof.outcome import RunResult
from shardproof.profiles import Budget
from shardproof.results import Destination, Saved, read_saved, to_results
from shardproof.search import Plan, search
from tests.search.planted import Planted, kinds

CASE = Case((Group("main", (0, 1)),), (Parameter("p", (3,)),), (Operation("register"),))
KNOWN = Deviation("b", Condition.read("numel == 99", "here"), CASE, "on purpose", "link")


@pytest.fixture(scope="module")
def run() -> RunResult:
    planted = Planted(
        {"a": lambda case: case.world_size > 1, "b": lambda case: "gather" in kinds(case)}, unjudged=("c",)
    )
    plan = Plan(budget=Budget(40, 300, 300), deviations=(KNOWN,), destination=Destination(Path("here")))
    return search(planted, plan)


def test_everything_is_there(run: RunResult) -> None:
    told = json.loads(json.dumps(to_results(run)))
    assert told["version"] == 1
    assert set(told["versions"]) == {"python", "shardproof", "hypothesis", "numpy", "torch"}
    assert told["implementation"]["name"] == "planted"
    assert (told["device"], told["backend"], told["seed"], told["world_sizes"]) == ("cpu", "gloo", 0, list(range(1, 9)))
    assert (told["outcome"], told["exit_code"], told["cases"]) == ("broken", 1, 40)
    assert {law["law"]: law["outcome"] for law in told["laws"]} == {"a": "broken", "b": "broken", "c": "not judged"}
    assert told["laws"][2]["reason"] == "nothing was seen"
    assert set(told["seconds"]) == {"drawing", "running", "judging", "shrinking", "replaying", "total"}
    assert told["features"]["padding"] == run.features["padding"]
    assert [known["deviates"] for known in told["deviations"]] == [False]


def test_a_failure_holds_its_case(run: RunResult) -> None:
    told = {failure["law"]: failure for failure in to_results(run)["failures"]}["a"]
    told = json.loads(json.dumps(told))
    (smallest,) = (failure.case for failure in run.failures if failure.law == "a")
    assert from_json(told["case"]) == smallest
    assert told["violations"] == [
        {"law": "a", "observed": "wrong", "expected": "right", "rank": 0, "parameter": "p0", "step": 0}
    ]
    assert told["replays"] == {"tried": 1, "broken": 1}
    assert told["flaky"] is False
    assert told["replay"] == "shardproof replay here/failures/a.json --impl planted --device cpu"


def test_written_to_a_folder(run: RunResult, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    (folder / "failures").mkdir(parents=True)
    (folder / "failures" / "old.json").write_text("from an earlier run")
    (folder / "mine.txt").write_text("not ours")
    assert Destination(folder).write(run) == folder / "results.json"
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*.*")) == [
        "failures/a.json",
        "failures/b.json",
        "mine.txt",
        "results.json",
    ]
    for failure in run.failures:
        assert read_case(folder / "failures" / f"{failure.law}.json") == failure.case
        assert read_saved(folder / "failures" / f"{failure.law}.json") == Saved(failure.case)


def test_written_to_a_file(run: RunResult, tmp_path: Path) -> None:
    path = tmp_path / "new" / "r.json"
    assert Destination(None, path).write(run) == path
    assert [file.name for file in path.parent.iterdir()] == ["r.json"]
    for index, failure in enumerate(run.failures):
        assert read_saved(path, index) == Saved(failure.case, failure.law, "planted", "cpu")
    assert read_saved(path) == read_saved(path, 0)


RESULTS: dict[str, Any] = {
    "version": 1,
    "implementation": {"name": "x"},
    "device": "cpu",
    "failures": [{"law": "a", "case": json.loads(encode(CASE))}],
}
# A change of the results, an index, and the place and words of the error.
HOSTILE: list[tuple[dict[str, Any], int | None, str, str]] = [
    ({"version": 2}, None, ".version", "observed 2, expected 1"),
    ({"failures": {}}, None, ".failures", "a list"),
    ({"failures": []}, None, "", "found no failure"),
    ({"failures": [1]}, None, ".failures[0]", "an object"),
    ({"failures": [{}]}, None, ".failures[0].case", "an object"),
    ({"failures": [{"law": "a", "case": {"version": 3}}]}, None, ".failures[0].case.version", "observed 3"),
    ({"failures": [{"law": 1, "case": json.loads(encode(CASE))}]}, None, ".failures[0].law", "a text"),
    ({"implementation": "x"}, None, ".implementation", "an object"),
    ({"implementation": {}}, None, ".implementation.name", "a text"),
    ({"device": 0}, None, ".device", "a text"),
    ({}, 1, "", "observed 1, expected 0 to 0"),
    ({}, -1, "", "observed -1"),
]


@pytest.mark.parametrize(("change", "index", "place", "words"), HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_results(tmp_path: Path, change: dict[str, Any], index: int | None, place: str, words: str) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(RESULTS | change))
    with pytest.raises(UsageError) as caught:
        read_saved(path, index)
    assert caught.value.where == f"{path}{place}"
    assert words in str(caught.value)


def test_a_case_file_has_no_index(tmp_path: Path) -> None:
    write_case(tmp_path / "case.json", CASE)
    with pytest.raises(UsageError, match="holds one case"):
        read_saved(tmp_path / "case.json", 0)
