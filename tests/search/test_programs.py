"""What a program made of drawn segments may not ask for."""

from __future__ import annotations

import pytest

from shardproof.case import Operation
from shardproof.programs import program, segments

EVERYTHING = ("gather", "accumulate", "reduce", "norm", "forward", "backward", "clip", "step", "save", "load")
IDS = ("p0", "p1")

# The kinds of the segments asked for, and those of the program where gradients given for p0 have another dtype than
# those of a backward.
CASES = {
    "added to in a segment": ["accumulate forward backward norm step gather", "gather"],
    "added to later": ["accumulate", "forward backward step gather"],
    "reduced between": ["accumulate", "accumulate reduce", "forward backward step gather"],
    "nothing accumulated": ["forward backward step gather"],
}
EXPECTED = {
    "added to in a segment": "register gather",
    "added to later": "register accumulate",
    "reduced between": "register accumulate accumulate reduce forward backward step gather",
    "nothing accumulated": "register forward backward step gather",
}


def drawn(asked: list[str], apart: tuple[str, ...]) -> tuple[Operation, ...]:
    known = segments(EVERYTHING, means=True, elsewhere=True)
    chosen = [next(s for s in known if " ".join(move.kind for move in s) == kinds) for kinds in asked]
    return program(chosen, IDS, IDS, apart)


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_two_dtypes_are_not_added_up(name: str) -> None:
    assert " ".join(operation.kind for operation in drawn(CASES[name], ("p0",))) == EXPECTED[name]


@pytest.mark.parametrize("name", CASES)
def test_of_one_dtype_everything_is_asked(name: str) -> None:
    kinds = [operation.kind for operation in drawn(CASES[name], ())]
    assert kinds == ["register", *" ".join(CASES[name]).split()]
