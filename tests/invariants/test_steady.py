"""Which repeated gathers are in a steady state, in programs of one rank, and what they may then cost."""

from __future__ import annotations

import pytest

from invariants import Buffer, Call, Cost, Evidence, Expected, Held, RankStory, Step, Subject, find, judge
from invariants.views import warm
from reference import FlatPadded

# Steps by their first letter and their parameters, "~" and a parameter of which somebody holds a view. b and a are of
# their own, c is tied to a; x and y are unknown to the model.
KINDS = {"g": "gather", "r": "release", "u": "update", "s": "save", "l": "load", "f": "forward", "b": "backward"}
# Program -> for each gather that is not the first of its memory, whether the memory is certainly there.
PROGRAMS = {
    "ga ga": [True],
    "ga ra ga": [True],
    "ga ra gb ga": [False],
    "ga gb ra rb ga": [True],
    "ga gb ra rb ga gb": [True, False],
    "ga sa ga": [False],
    "ga sa ra ga": [False],
    "ga sa ga ga": [False, True],
    "ga gb ua ga": [True],
    "ga ub~a ga": [False],
    "ga ub~c ga": [False],
    "ga ub~b ga": [True],
    "ga ra ub~a ga": [False],
    "ga gc": [True],
    "ga sa ga gc": [False, True],
    "ga fa ga ga": [False, False],
    "ga fa ga ba ga ga": [False, False, True],
    "ga ba ga ga": [False, True],
    "ga la ga ga": [False, False],
    "gx gx": [True],
    "gx sx gy gx": [False],
    "gx ux~x gx": [False],
    "gx ux~y gx": [True],
}
SUBJECTS = {
    id: Subject(id, (4,), "float32", {1: FlatPadded((4,), 1)}, tied_to="a" if id == "c" else None) for id in "abc"
}


def run(program: str, *calls: Call) -> Evidence:
    """One rank's steps; a gather is warm where its memory was gathered into before."""
    steps: list[Step] = []
    known: set[str] = set()
    for word in program.split():
        (letter, *ids), _, view = word.partition("~")
        memory = {"a" if id == "c" else id for id in ids}
        held = (Held(view, 0, released=False),) if view else ()
        again = letter == "g" and memory <= known
        known |= memory if letter == "g" else set()
        steps.append(Step(len(steps), KINDS[letter], tuple(ids), 0, 1, warm=again, held=held, cost=Cost(calls)))
    return Evidence(1, SUBJECTS, (RankStory(0, "done", tuple(steps)),), (Expected(),) * len(steps))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_gather_is_steady_where_its_buffer_is_certainly_there(program: str) -> None:
    assert [item.steady for item in warm(run(program))] == PROGRAMS[program]


def test_an_item_says_dtypes_and_storages() -> None:
    call = Call("all_gather", (Buffer(4, "float32", True, 1),), (Buffer(4, "float32", True, 7),))
    first, second = warm(run("ga ga ga", call))
    assert (first.dtypes, first.into, first.before) == ({"float32"}, {7}, {7})
    assert (second.step.index, second.before) == (2, {7})


def test_nothing_is_demanded_from_the_first_open_step_on() -> None:
    evidence = run("ga ga ga")
    opened = (*evidence.expected[:2], Expected("unspecified"))
    assert [item.step.index for item in warm(Evidence(1, SUBJECTS, evidence.ranks, opened))] == [1]


@pytest.mark.parametrize(("calls", "outcome"), [(1, "held"), (2, "held"), (3, "broken")])
def test_a_gather_of_two_may_take_two_collectives(calls: int, outcome: str) -> None:
    call = Call("all_gather", (Buffer(4, "float32", True, 1),), (Buffer(4, "float32", True, 7),))
    assert judge(find("one-collective"), run("gab gab", *[call] * calls)).outcome == outcome
