"""Who reads memory that nobody wrote reads poison, not a lucky zero, whichever way the memory came to be."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shardproof.case import Case, Group, Operation, Parameter
from shardproof.engine import Engine
from tests.engine import readers

WORLD = (Group("main", (0, 1)),)
GATHER = (Operation("register"), Operation("gather"))
ONE, THREE = (Parameter("p0", (1,)),), (Parameter("p0", (3,)),)
# Which reader, and a case in which it reads what nobody wrote.
READERS = {
    "Fresh": Case(WORLD, THREE, GATHER),
    "Strided": Case(WORLD, THREE, GATHER),
    "Grown": Case(WORLD, THREE, GATHER),
    "Padding": Case(WORLD, ONE, GATHER),
}
POISON = 0xFFFFFFFF


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine("list_all_gather", pool_size=2, deadline=60) as opened:
        yield opened


def first_word(bits: bytes) -> int:
    return int.from_bytes(bits[:4], "little")


@pytest.mark.parametrize("name", READERS)
def test_it_is_seen(engine: Engine, name: str) -> None:
    engine.switch(f"{readers.__name__}:{name}")
    verdict = engine.judge(READERS[name], twice=True)
    assert {"round-trip", "padding-unobservable"} <= {violation.law for violation in verdict.broken}
    word = (first_word(verdict.evidence.expected[1].results["p0"]) + POISON) % 2**32
    assert [first_word(story.steps[1].results["p0"].bits) for story in verdict.evidence.ranks] == [word, word]


def test_the_control_reads_none(engine: Engine) -> None:
    engine.switch("list_all_gather")
    assert not any(engine.judge(case, twice=True).broken for case in READERS.values())
