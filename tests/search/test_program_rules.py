from __future__ import annotations

from dataclasses import replace

import pytest

from shardproof.case import Case, Divergence, Group, Operation, Parameter
from shardproof.program_rules import out_of_order

# A word is an operation on all parameters; "gather:a" acts on a, "load@other" happens in the other group.
MAKES_SENSE = [
    "register",
    "layout",
    "layout register layout",
    "register gather gather use",
    "register:a gather:a register:b gather",
    "register prefetch wait use release",
    "register prefetch:a prefetch:b wait:b wait:a",
    "register prefetch:a gather:b wait:a",
    "register update gather invalidate gather release gather",
    "register accumulate accumulate reduce norm clip step",
    "register save load gather",
    "register save load@other gather@other use@other save@other load gather",
    "register forward backward step step",
    "register forward backward norm clip norm step gather save update",
    "register accumulate forward backward step forward backward step",
    "register forward backward step save load@other gather@other forward@other backward@other norm@other step@other",
]
# The first operation that makes none, and words of what is told.
MAKES_NONE = [
    ("gather", 0, "not registered"),
    ("register register", 1, "again"),
    ("register:b", 0, "tied"),
    ("register:a gather:b", 1, "not registered"),
    ("register@other", 0, "a load registers elsewhere"),
    ("register wait", 1, "a prefetch of it before"),
    ("register prefetch wait wait", 3, "a prefetch of it before"),
    ("register prefetch gather", 2, "wait first"),
    ("register prefetch prefetch", 2, "wait first"),
    ("register prefetch:a update", 2, "wait first"),
    ("register prefetch release", 2, "wait first"),
    ("register prefetch save", 2, "wait first"),
    ("register use", 1, "a gather or wait of it before"),
    ("register gather:a use", 2, "a gather or wait of it before"),
    ("register release", 1, "a gather or wait of it before"),
    ("register norm", 1, "a reduce or backward before"),
    ("register clip", 1, "a reduce or backward before"),
    ("register step", 1, "a reduce or backward before"),
    ("register backward", 1, "a forward of the same parameters before"),
    ("register forward update backward", 3, "a forward of the same parameters before"),
    ("register forward backward backward", 3, "a forward of the same parameters before"),
    ("register forward backward save load step", 5, "a reduce or backward before"),
    ("register prefetch forward", 2, "wait first"),
    ("register load", 1, "a save before"),
    ("register gather@other", 1, "in 'main'"),
    ("register save load@other gather", 3, "in 'other'"),
    ("register gather save load@other use@other", 4, "a gather or wait of it before"),
    ("register save load@other reduce@other", 3, "in 'main'"),
]


def case(words: str) -> Case:
    return Case(
        groups=(Group("main", (0, 1)), Group("other", (0, 1, 2))),
        parameters=(Parameter("a", (1,)), Parameter("b", (1,), tied_to="a")),
        program=tuple(operation(word) for word in words.split()),
    )


def operation(word: str) -> Operation:
    word, _, group = word.partition("@")
    kind, _, parameter = word.partition(":")
    return Operation(kind, (parameter,) if parameter else (), group or "main")  # type: ignore[arg-type]  # kinds by name


@pytest.mark.parametrize("words", MAKES_SENSE)
def test_makes_sense(words: str) -> None:
    assert list(out_of_order(case(words))) == []


@pytest.mark.parametrize(("words", "index", "told"), MAKES_NONE)
def test_makes_none(words: str, index: int, told: str) -> None:
    first = next(out_of_order(case(words)))
    assert first[0] == index
    assert told in " ".join(first[1:])


def test_ranks_that_differ_register_everything_at_once() -> None:
    split = replace(case("register:a register:b"), divergences=(Divergence(0, "order"),))
    assert "of all, where ranks differ" in next(out_of_order(split))
