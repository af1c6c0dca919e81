from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from shardproof.case import Case
from shardproof.errors import CouldNotJudge, UsageError
from tests.cli.conftest import Run
from tests.search.planted import Planted, kinds

Plant = Callable[[Planted], None]


def wide(case: Case) -> bool:
    return case.world_size > 1


def test_all_laws_hold(run: Run, plant: Plant) -> None:
    plant(Planted({"a": lambda _: False}))
    ended = run("check", "--examples", "200", "--seed", "3")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[0] == (
        "checking planted on gloo (cpu), world sizes 1, 2, 3, 4, 5, 6, 7, 8, 1 laws, seed 3"
    )
    assert ended.out.splitlines()[-1] == "all judged laws hold"
    told = json.loads(Path(".shardproof/latest/results.json").read_text())
    assert (told["outcome"], told["exit_code"], told["seed"], told["cases"]) == ("held", 0, 3, 200)


def test_a_broken_law(run: Run, plant: Plant) -> None:
    plant(Planted({"held": lambda _: False, "wide-law": wide}))
    ended = run("check", "--examples", "40")
    assert ended.code == 1
    assert ended.out.splitlines()[-1] == "BROKEN: wide-law"
    assert "planted breaks wide-law" in ended.out
    assert "shardproof replay .shardproof/latest/failures/wide-law.json --impl planted" in ended.out
    assert Path(".shardproof/latest/failures/wide-law.json").exists()
    assert json.loads(Path(".shardproof/latest/results.json").read_text())["failures"][0]["law"] == "wide-law"


def test_too_few_cases_to_say_anything(run: Run, plant: Plant) -> None:
    plant(Planted({"a": lambda _: False}))
    ended = run("check", "--examples", "2")
    assert ended.code == 2
    assert ended.out.splitlines()[-1].startswith("COULD NOT JUDGE: none of the 2 cases had: ")
    assert json.loads(Path(".shardproof/latest/results.json").read_text())["outcome"] == "could not judge"


def test_what_is_not_judged_is_told_with_its_reason(run: Run, plant: Plant) -> None:
    plant(Planted({"a": lambda _: False}, unjudged=("b",)))
    ended = run("check", "--examples", "200")
    assert ended.code == 0
    assert "1 held, 1 not judged" in ended.out
    assert "  not judged  b: nothing was seen" in ended.out


# Options, and the files that are there afterwards.
DESTINATIONS: list[tuple[list[str], list[str]]] = [
    ([], [".shardproof/latest/failures/a.json", ".shardproof/latest/results.json"]),
    (["--report", "out"], ["out/failures/a.json", "out/results.json"]),
    (["--json", "deep/r.json"], ["deep/r.json"]),
    (["--report", "out", "--json", "r.json"], ["out/failures/a.json", "out/results.json", "r.json"]),
]


@pytest.mark.parametrize(("options", "files"), DESTINATIONS, ids=[" ".join(row[0]) or "none" for row in DESTINATIONS])
def test_where_results_go(run: Run, plant: Plant, options: list[str], files: list[str]) -> None:
    plant(Planted({"a": wide}))
    assert run("check", "--examples", "20", *options).code == 1
    there = [str(path) for path in Path().rglob("*.json") if "hypothesis" not in path.parts]
    assert sorted(there) == files


def test_only_some_laws(run: Run, plant: Plant) -> None:
    plant(Planted({"round-trip": wide, "shape-restored": wide}))
    assert run("check", "--examples", "20", "--only", "shape-restored").out.splitlines()[-1] == "BROKEN: shape-restored"


def test_world_sizes_are_those_asked_for(run: Run, plant: Plant) -> None:
    planted = Planted({"a": lambda _: False})
    plant(planted)
    run("check", "--examples", "30", "--world-sizes", "2,3")
    assert {case.world_size for case in planted.judged} == {2, 3}


def test_shapes_of_a_model(run: Run, plant: Plant) -> None:
    planted = Planted({"a": lambda case: "gather" in kinds(case)})
    plant(planted)
    ended = run("check", "--shapes", "gpt2", "--world-sizes", "2,3")
    assert ended.code == 1
    asked = [case for case in planted.judged if kinds(case) == ["layout"]]
    assert {case.world_size for case in asked} == {2, 3}
    assert (50257, 768) in {parameter.shape for parameter in asked[0].parameters}
    moved = [case for case in planted.judged if "gather" in kinds(case)]
    assert max(parameter.numel for case in moved for parameter in case.parameters) < 10_000


KNOWN = """
[[deviation]]
law = "round-trip"
condition = "world_size > 1"
reason = "on purpose"
link = "https://example.org"
[deviation.case]
version = 1
groups = [{name = "main", ranks = [0, 1]}]
parameters = [{id = "p", shape = [3]}]
program = [{kind = "register"}]
"""


def test_known_deviations(run: Run, plant: Plant) -> None:
    Path("known.toml").write_text(KNOWN)
    plant(Planted({"round-trip": wide}))
    ended = run("check", "--examples", "200", "--known-deviations", "known.toml")
    assert ended.code == 0
    assert "known deviation from round-trip: still there" in ended.out
    assert "  deviates    round-trip, as is known, in " in ended.out


def test_a_known_deviation_that_is_gone(run: Run, plant: Plant) -> None:
    Path("known.toml").write_text(KNOWN)
    plant(Planted({"round-trip": lambda _: False}))
    ended = run("check", "--examples", "200", "--known-deviations", "known.toml")
    assert ended.code == 1
    assert "known deviation from round-trip no longer deviates" in ended.out


# Options that are wrong use, and words of what is told.
WRONG: list[tuple[list[str], list[str]]] = [
    (["--impl", "gpu_imp"], ["there is no implementation 'gpu_imp'", "did you mean gpu_impl?", "fsdp2"]),
    (["--impl", "no such thing"], ["there is no implementation", "gpu_impl"]),
    (["--device", "cud"], ["there is no device 'cud'", "cpu, cuda", "did you mean cuda?"]),
    (["--world-sizes", "0"], ["--world-sizes", "'0'", "1 to 64"]),
    (["--world-sizes", "8-1"], ["--world-sizes", "'8-1'"]),
    (["--world-sizes", "a"], ["--world-sizes", "'a'"]),
    (["--world-sizes", ""], ["--world-sizes", "''"]),
    (["--profile", "smok"], ["there is no profile 'smok'", "smoke, default, nightly", "did you mean smoke?"]),
    (["--examples", "0"], ["--examples"]),
    (["--examples", "many"], ["--examples"]),
    (["--seed", "-1"], ["--seed"]),
    (["--only", "round-tripp"], ["there is no law 'round-tripp'", "did you mean round-trip?", "shape-restored"]),
    (["--only", ","], ["--only", "no law is named"]),
    (["--shapes", "gpt-2"], ["there is no shape set 'gpt-2'", "did you mean gpt2?"]),
    (["--known-deviations", "none.toml"], ["none.toml", "No such file"]),
    (["--no-such-option"], ["--no-such-option"]),
    (["extra"], ["extra"]),
]


@pytest.mark.parametrize(("options", "words"), WRONG, ids=[" ".join(row[0]) for row in WRONG])
def test_wrong_use(run: Run, options: list[str], words: list[str]) -> None:
    ended = run("check", *options)
    assert ended.code == 2
    assert all(word in ended.err for word in words), ended.err
    assert not Path(".shardproof/latest").exists()


def test_a_law_of_a_deviation_that_is_none(run: Run) -> None:
    Path("known.toml").write_text(KNOWN.replace("round-trip", "round-tripp"))
    ended = run("check", "--known-deviations", "known.toml")
    assert ended.code == 2
    assert "there is no law 'round-tripp'" in ended.err


def raising(error: BaseException) -> Callable[[Case], bool]:
    def judge(_: Case) -> bool:
        raise error

    return judge


# What the engine raises, the exit code, and words of what is told.
RAISED: list[tuple[BaseException, int, list[str]]] = [
    (UsageError("unusable", where="here"), 2, ["error: unusable [here]"]),
    (CouldNotJudge("torch finds no CUDA device here"), 2, ["could not judge: torch finds no CUDA device here"]),
    (ZeroDivisionError("a mistake of ours"), 3, ["ZeroDivisionError: a mistake of ours", "Please report this"]),
    (KeyboardInterrupt(), 130, []),
]


@pytest.mark.parametrize(("error", "code", "words"), RAISED, ids=[type(row[0]).__name__ for row in RAISED])
def test_exit_codes(run: Run, plant: Plant, error: BaseException, code: int, words: list[str]) -> None:
    plant(Planted({"a": raising(error)}))
    ended = run("check", "--examples", "5")
    assert ended.code == code
    assert all(word in ended.err for word in words)
