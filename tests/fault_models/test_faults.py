"""The search over fault models: counts, smallest cases, and what the command makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

import pytest

from invariants import LAWS
from shardproof import faults
from shardproof.case import Case, Delay, Divergence, Group, Operation, Parameter
from shardproof.cli import main
from shardproof.commands.faults import in_short, line, summary
from shardproof.engine import Engine
from shardproof.fault_models.registry import CORRECT, FAULTS, FaultModel
from shardproof.faults import BUDGET, Caught, Draws, hunted

FAULT = next(fault for fault in FAULTS if fault.slug == "compares-owned")
NO_FAULT = FaultModel("none", "-", "nothing is wrong", CORRECT[0], tuple(law.slug for law in LAWS), ((1,),), 2)
SMALL = Case((Group("main", (0, 1)),), (Parameter("p0", (1,)),), (Operation("register"),))
LARGE = replace(SMALL, parameters=(Parameter("p0", (2,)),), delays=(Delay(1, 0, 2),))
ODD = replace(SMALL, divergences=(Divergence(1, "refuses"),))


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(CORRECT[0], deadline=10.0) as engine:
        yield engine


def test_a_fault_is_caught_under_every_seed_and_made_small(engine: Engine) -> None:
    caught = hunted(engine, FAULT, range(2), Draws(replace(BUDGET, shrink_seconds=60)))
    assert not caught.survived
    assert caught.law in FAULT.laws
    assert caught.small_enough
    assert 1 <= caught.median <= caught.worst


def test_what_is_correct_survives(engine: Engine) -> None:
    caught = hunted(engine, NO_FAULT, range(2), Draws(replace(BUDGET, examples=12)))
    assert caught.cases == (None, None)
    assert (caught.survived, caught.median, caught.worst, caught.smallest) == (True, inf, inf, None)


def test_draws_are_the_same_again_and_each_once(engine: Engine) -> None:
    engine.switch(CORRECT[0])
    draws = Draws(replace(BUDGET, examples=100))
    cases = list(draws.cases(engine, 3))
    assert len(cases) == len(set(cases)) == 100
    assert list(draws.cases(engine, 3)) == cases == list(Draws(draws.budget).cases(engine, 3))


@pytest.mark.parametrize(("smallest", "expected"), [(SMALL, True), (LARGE, False), (None, False)])
def test_small_enough(smallest: Case | None, expected: bool) -> None:
    assert Caught(FAULT, (1,), "round-trip", smallest).small_enough is expected


@pytest.mark.parametrize(
    ("caught", "parts"),
    [
        (Caught(FAULT, (3, 9, 5), "round-trip", SMALL), ["R1", "caught by round-trip", "median 5, worst 9", "2 ranks"]),
        (Caught(FAULT, (3, None, 5), "round-trip", SMALL), ["SURVIVED 1 of 3 seeds", "median 5, worst inf"]),
        (Caught(FAULT, (None,)), ["SURVIVED: unpadded shard sizes are compared"]),
    ],
)
def test_one_line_a_fault(caught: Caught, parts: Sequence[str]) -> None:
    assert all(part in line(caught) for part in parts)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (SMALL, "2 ranks; (1,) float32; register"),
        (LARGE, "2 ranks; (2,) float32; register; rank 1 late at operation 0"),
        (ODD, "2 ranks; (1,) float32; register; rank 1 differs in refuses"),
    ],
)
def test_a_case_in_short(case: Case, expected: str) -> None:
    assert in_short(case) == expected


def test_the_summary_names_rows_without_a_model() -> None:
    text = summary([Caught(FAULT, (3, 9), "round-trip", SMALL), Caught(FAULT, (None, 1), "round-trip", LARGE)])
    assert "2 fault models, 1 caught under every seed" in text
    assert "1 shown by a case no larger" in text
    assert "G9 has no model here: needs CUDA streams" in text


@pytest.mark.parametrize(("cases", "code"), [((1, 2), 0), ((1, None), 1)])
def test_exit_code(monkeypatch: pytest.MonkeyPatch, cases: tuple[int | None, ...], code: int) -> None:
    def planned(chosen: Sequence[FaultModel], seeds: Sequence[int]) -> Iterator[Caught]:
        assert list(seeds) == [0, 1]
        yield from (Caught(fault, cases, "round-trip", SMALL) for fault in chosen)

    monkeypatch.setattr(faults, "hunt_all", planned)
    assert main(["faults", "--only", "R1,stale-by-count", "--seeds", "2"]) == code


@pytest.mark.parametrize("only", ["R99", "", "stale"])
def test_unknown_rows_are_wrong_use(only: str) -> None:
    assert main(["faults", "--only", only]) == 2
