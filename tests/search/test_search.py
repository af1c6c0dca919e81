from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from shardproof.case import Case, Group, Operation, Parameter
from shardproof.deviations import Condition, Deviation
from shardproof.events import CaseJudged, Event, FailureFound, PinnedJudged, RunFinished, RunStarted, Shrinking
from shardproof.outcome import LawResult, RunResult
from shardproof.profiles import Budget
from shardproof.results import Destination
from shardproof.search import Plan, search
from tests.search.planted import Planted, describe, kinds

Fault = Callable[[Case], bool]

BUDGET = Budget(examples=60, seconds=300, shrink_seconds=300)
ENOUGH = Budget(examples=150, seconds=300, shrink_seconds=300)
NEVER: Fault = lambda _: False  # noqa: E731  # a row of many tables
WIDE: Fault = lambda case: case.world_size > 1  # noqa: E731  # likewise
GATHERS: Fault = lambda case: "gather" in kinds(case)  # noqa: E731  # likewise
THREE: Fault = lambda case: case.world_size == 3  # noqa: E731  # likewise
TWO: Fault = lambda case: len(case.parameters) > 1  # noqa: E731  # likewise
PINNED = Case((Group("main", (0, 1)),), (Parameter("p", (3,)),), (Operation("register"),))


def outcomes(result: RunResult) -> dict[str, str]:
    return {law.law: law.outcome for law in result.laws}


def deviation(law: str = "a", condition: str = "world_size > 1", device: str | None = None) -> Deviation:
    return Deviation(law, Condition.read(condition, "here"), PINNED, "on purpose", "link", device)


def test_a_law_that_holds() -> None:
    result = search(Planted({"a": NEVER}), Plan(budget=ENOUGH))
    assert (result.outcome, result.exit_code, result.cases, result.shrink_cases) == ("held", 0, 150, 0)
    assert result.laws == (LawResult("a", cases=150, items=150),)
    assert (result.missing, result.failures, result.why_not) == ((), (), "")


def test_each_law_has_its_own_smallest_case() -> None:
    planted = Planted({"wide": WIDE, "held": NEVER, "gathers": GATHERS, "two": TWO})
    result = search(planted, Plan(budget=ENOUGH))
    assert outcomes(result) == {"wide": "broken", "held": "held", "gathers": "broken", "two": "broken"}
    smallest = {failure.law: failure.case for failure in result.failures}
    assert {law: case.world_size for law, case in smallest.items()} == {"wide": 2, "gathers": 1, "two": 1}
    assert {law: len(case.parameters) for law, case in smallest.items()} == {"wide": 1, "gathers": 1, "two": 2}
    assert {law: len(case.program) for law, case in smallest.items()} == {"wide": 1, "gathers": 2, "two": 1}
    assert (result.outcome, result.exit_code) == ("broken", 1)


def test_one_law_does_not_turn_into_another() -> None:
    """The rare law is broken only where the common one is, too, which has far smaller cases."""
    rare: Fault = lambda case: case.world_size > 2 and GATHERS(case)  # noqa: E731  # used once
    result = search(Planted({"common": lambda _: True, "rare": rare}), Plan(budget=ENOUGH))
    smallest = {failure.law: failure.case for failure in result.failures}
    assert (smallest["common"].world_size, kinds(smallest["common"])) == (1, ["register"])
    assert (smallest["rare"].world_size, kinds(smallest["rare"])) == (3, ["register", "gather"])


def test_a_known_broken_law_is_not_made_smaller_again() -> None:
    heard: list[Event] = []
    search(Planted({"a": WIDE}), Plan(budget=ENOUGH), [heard.append])
    found = [number for number, event in enumerate(heard) if isinstance(event, FailureFound)]
    assert len(found) == 1
    after = heard[found[0] + 1 :]
    assert any(isinstance(event, CaseJudged) and event.broken for event in after)
    assert not any(isinstance(event, Shrinking) for event in after)


def test_the_budget_counts_drawn_cases_over_all_findings() -> None:
    result = search(Planted({"a": WIDE, "b": GATHERS, "c": TWO}), Plan(budget=BUDGET))
    assert result.cases == BUDGET.examples
    assert result.shrink_cases > 0


def test_no_time_at_all() -> None:
    result = search(Planted({"a": WIDE}), Plan(budget=Budget(examples=100, seconds=0, shrink_seconds=1)))
    assert (result.cases, result.outcome, result.exit_code) == (0, "could not judge", 2)
    assert "none of the 0 cases had" in result.why_not


def test_no_time_to_make_it_smaller() -> None:
    result = search(Planted({"a": WIDE}), Plan(budget=Budget(examples=20, seconds=300, shrink_seconds=0)))
    (finding,) = result.findings
    assert (finding.attempts, finding.case) == (0, finding.found_in)


def test_a_case_is_run_once() -> None:
    planted = Planted({"a": NEVER})
    search(planted, Plan(budget=ENOUGH))
    assert len(set(planted.judged)) == len(planted.judged)


def test_a_seed_gives_the_same_run() -> None:
    runs = [search(Planted({"a": THREE}), Plan(budget=BUDGET, seed=seed)) for seed in (5, 5, 6)]
    told = [[(f.law, f.case, f.found_in, f.attempts) for f in run.findings] for run in runs]
    assert told[0] == told[1]
    assert runs[0].features == runs[1].features
    assert (told[0], runs[0].features) != (told[2], runs[2].features)


def test_events_in_order() -> None:
    heard: list[Event] = []
    result = search(
        Planted({"a": WIDE}), Plan(budget=BUDGET, deviations=(deviation("a", "numel == 99"),)), [heard.append]
    )
    kinds_heard = [type(event) for event in heard]
    assert kinds_heard[:3] == [RunStarted, PinnedJudged, CaseJudged]
    assert heard[-1] == RunFinished(result)
    numbers = [event.number for event in heard if isinstance(event, CaseJudged)]
    assert numbers == list(range(1, result.cases + 1))
    attempts = [event.attempts for event in heard if isinstance(event, Shrinking)]
    assert attempts == list(range(1, result.findings[0].attempts + 1))
    assert kinds_heard.count(FailureFound) == 1


def test_it_is_run_again_on_fresh_ranks() -> None:
    planted = Planted({"a": WIDE})
    result = search(planted, Plan(budget=BUDGET))
    assert (result.findings[0].replays.tried, result.findings[0].replays.broken, planted.renewed) == (1, 1, 1)
    assert not result.findings[0].flaky


def test_what_does_not_show_again_is_told_with_counts() -> None:
    planted = Planted({})
    planted.faults = {"a": lambda case: WIDE(case) and planted.renewed in (0, 3)}
    (finding,) = search(planted, Plan(budget=BUDGET)).findings
    assert finding.flaky
    assert (finding.replays.tried, finding.replays.broken) == (5, 1)


def test_a_law_that_compares_two_runs_is_made_smaller_in_two_runs() -> None:
    """Only some drawn cases run twice, by chance of their contents; a smaller case must not get away by that."""
    planted = Planted({"twice-told": WIDE}, sampled=lambda case: len(case.parameters) == 3)
    (failure,) = search(planted, Plan(budget=ENOUGH)).failures
    assert (failure.case.world_size, len(failure.case.parameters)) == (2, 1)


class HarnessError(Exception):
    """Not a finding."""


def test_what_the_engine_raises_comes_out() -> None:
    def fails(case: Case) -> bool:
        if len(case.parameters) > 1:
            raise HarnessError
        return False

    with pytest.raises(HarnessError):
        search(Planted({"a": fails}), Plan(budget=BUDGET))


def test_what_the_engine_raises_while_a_case_gets_smaller_comes_out() -> None:
    planted = Planted({})

    def fails(case: Case) -> bool:
        if WIDE(case) and any(map(WIDE, planted.judged[:-1])):
            raise HarnessError
        return WIDE(case)

    planted.faults = {"a": fails}
    with pytest.raises(HarnessError):
        search(planted, Plan(budget=BUDGET))


def test_only_some_laws() -> None:
    result = search(Planted({"a": WIDE, "b": WIDE}), Plan(budget=BUDGET, only=("b",)))
    assert outcomes(result) == {"b": "broken"}


def test_a_law_that_is_not_promised_is_not_judged() -> None:
    result = search(Planted({"a": NEVER}), Plan(budget=BUDGET, only=("other",)))
    assert result.laws == (LawResult("other", reason="planted does not promise it"),)
    assert (result.outcome, result.exit_code) == ("could not judge", 2)
    assert "planted does not promise it" in result.why_not or result.missing


def test_what_saw_nothing_is_not_judged() -> None:
    result = search(Planted({"a": NEVER}, unjudged=("b",)), Plan(budget=ENOUGH))
    assert outcomes(result) == {"a": "held", "b": "not judged"}
    assert result.laws[1].reason == "nothing was seen"
    assert result.outcome == "held"


def test_nothing_but_laws_that_saw_nothing() -> None:
    result = search(Planted({}, unjudged=("b",)), Plan(budget=ENOUGH))
    assert (result.outcome, result.exit_code, result.why_not) == ("could not judge", 2, "nothing was seen")
    assert result.unknown_cases == result.cases


def test_a_feature_that_never_came_keeps_a_run_from_passing() -> None:
    result = search(Planted({"a": NEVER}), Plan(budget=Budget(examples=3, seconds=300, shrink_seconds=1)))
    assert (result.outcome, result.exit_code) == ("could not judge", 2)
    assert "reshard" in result.missing
    assert "none of the 3 cases had: " in result.why_not


def test_a_broken_law_outweighs_a_missing_feature() -> None:
    result = search(Planted({"a": GATHERS}), Plan(budget=Budget(examples=5, seconds=300, shrink_seconds=300)))
    assert result.missing
    assert result.outcome == "broken"


def test_features_that_the_world_sizes_rule_out_are_not_missed() -> None:
    result = search(Planted({"a": NEVER}), Plan(world_sizes=(1,), pool_size=1, budget=ENOUGH))
    assert (result.missing, result.outcome) == ((), "held")
    assert result.features["world-size-1"] == result.cases


# What is known, what the implementation does, and what is told.
KNOWN: list[tuple[tuple[Deviation, ...], Fault, str, str]] = [
    ((), WIDE, "broken", "broken"),
    ((deviation(),), WIDE, "deviates", "held"),
    ((deviation(condition="world_size == 2"),), WIDE, "broken", "broken"),
    ((deviation("b", "world_size > 1"),), WIDE, "broken", "broken"),
    ((deviation(device="cpu"),), WIDE, "deviates", "held"),
    ((deviation(device="cuda"),), WIDE, "broken", "broken"),
    ((deviation(),), NEVER, "held", "broken"),
    ((deviation(condition="world_size == 2"), deviation(condition="world_size > 2")), WIDE, "deviates", "broken"),
]


@pytest.mark.parametrize(("known", "fault", "law", "run"), KNOWN, ids=[str(n) for n in range(len(KNOWN))])
def test_known_deviations(known: tuple[Deviation, ...], fault: Fault, law: str, run: str) -> None:
    result = search(Planted({"a": fault, "b": NEVER}), Plan(budget=ENOUGH, deviations=known))
    assert outcomes(result)["a"] == law
    assert result.outcome == run


def test_a_deviation_of_another_torch_is_left_alone() -> None:
    known = replace(deviation(), torch=SpecifierSet("<2.13"))
    newer, older = (
        search(Planted({"a": WIDE}, describe(torch=torch)), Plan(budget=ENOUGH, deviations=(known,)))
        for torch in ("2.13.0+cpu", "2.11.0")
    )
    assert ([pinned.deviates for pinned in newer.pinned], newer.outcome) == ([None], "broken")
    assert ([pinned.deviates for pinned in older.pinned], older.outcome) == ([True], "held")


def test_a_known_deviation_does_not_hide_another_fault_of_its_law() -> None:
    fault: Fault = lambda case: WIDE(case) or TWO(case)  # noqa: E731  # used once
    result = search(Planted({"a": fault}), Plan(budget=ENOUGH, deviations=(deviation(),)))
    assert result.failures[0].case.world_size == 1
    assert len(result.failures[0].case.parameters) == 2
    assert result.laws[0].deviating_cases > 0


def test_a_deviation_that_is_gone_fails_the_run() -> None:
    result = search(Planted({"a": NEVER}), Plan(budget=ENOUGH, deviations=(deviation(),)))
    assert [known.law for known in result.stale] == ["a"]
    assert (result.failures, result.exit_code) == ((), 1)


def test_a_deviation_of_a_law_that_is_not_asked_for_is_left_alone() -> None:
    plan = Plan(budget=ENOUGH, deviations=(deviation(),), only=("b",))
    result = search(Planted({"a": NEVER, "b": NEVER}), plan)
    assert [pinned.deviates for pinned in result.pinned] == [None]
    assert result.outcome == "held"


def test_given_cases_in_place_of_drawn_ones() -> None:
    given = [
        Case((Group("main", tuple(range(n))),), (Parameter("p", (n, 6)),), (Operation("register"),)) for n in (1, 3)
    ]
    planted = Planted({"a": WIDE})
    result = search(planted, Plan(cases=given))
    assert (result.cases, planted.judged[:2]) == (2, given)
    assert (result.failures[0].case.world_size, result.failures[0].case.parameters[0].numel) == (2, 1)
    assert result.findings[0].found_in == given[1]


def test_given_cases_that_hold() -> None:
    given = [Case((Group("main", (0,)),), (Parameter("p", (3,)),), (Operation("register"),))]
    result = search(Planted({"a": NEVER}), Plan(cases=given))
    assert (result.outcome, result.missing) == ("held", ())


def test_the_replay_line_names_the_file(tmp_path: Path) -> None:
    planted = Planted({"a": WIDE, "b": GATHERS}, describe(name="pkg.mod:attr"))
    folder = search(planted, Plan(budget=BUDGET, destination=Destination(tmp_path / "a b")))
    assert folder.failures[0].replay == (
        f"shardproof replay '{tmp_path}/a b/failures/{folder.failures[0].law}.json' --impl pkg.mod:attr --device cpu"
    )
    file = search(planted, Plan(budget=BUDGET, destination=Destination(None, tmp_path / "r.json")))
    assert [failure.replay for failure in file.failures] == [
        f"shardproof replay {tmp_path}/r.json --index {index}" for index in (0, 1)
    ]
    assert search(planted, Plan(budget=BUDGET)).failures[0].replay == ""
