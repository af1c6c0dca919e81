"""In which order cases are started, waited for and judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from shardproof.ahead import Ahead
from shardproof.case import Case, Group, Operation, Parameter

CASES = [Case((Group("main", (0,)),), (Parameter("p", (n,)),), (Operation("register"),)) for n in (1, 2, 3)]


@dataclass
class Step:
    """A case that writes down what is done with it; its verdict is its name."""

    name: str
    log: list[str]

    def begin(self) -> None:
        self.log.append(f"begin {self.name}")

    def wait(self) -> None:
        self.log.append(f"wait {self.name}")

    def verdict(self) -> Any:
        self.log.append(f"judge {self.name}")
        return self.name


@dataclass
class Logging:
    log: list[str] = field(default_factory=list)
    asked: set[Any] = field(default_factory=set)

    def prepare(self, case: Case, *, twice: bool | None = None, only: Sequence[str] = ()) -> Step:
        self.asked.add((twice, only))
        name = str(case.parameters[0].numel)
        self.log.append(f"prepare {name}")
        return Step(name, self.log)


def test_a_case_is_judged_while_the_next_one_runs() -> None:
    engine = Logging()
    assert list(Ahead(engine).verdicts(CASES)) == ["1", "2", "3"]
    assert engine.log == [
        *("prepare 1", "begin 1"),
        *("prepare 2", "wait 1", "begin 2", "judge 1"),
        *("prepare 3", "wait 2", "begin 3", "judge 2"),
        *("wait 3", "judge 3"),
    ]


def test_how_cases_are_judged_is_passed_on() -> None:
    engine = Logging()
    assert list(Ahead(engine, ("a-law",), twice=True).verdicts(CASES)) == ["1", "2", "3"]
    assert engine.asked == {(True, ("a-law",))}


def test_nothing_to_judge() -> None:
    ahead = Ahead(Logging())
    assert list(ahead.verdicts([])) == []
    assert (ahead.rest(), ahead.started) == (None, 0)


def test_the_last_case_is_told_once() -> None:
    ahead = Ahead(Logging())
    assert [ahead.put(CASES[0]), ahead.rest(), ahead.rest(), ahead.put(CASES[1])] == [None, "1", None, None]
    assert ahead.started == 2
