"""What ZeRO-3's documentation promises, case by case."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shardproof.case import Case, Divergence, Group, Operation, Parameter
from shardproof.case_file import decode_trusted, encode
from shardproof.pytest_plugin import Ranks
from shardproof.ranks import Context, Pool

PLAIN = Parameter("p0", (3,))
ANSWERS = [
    ((PLAIN,), (), "accept"),
    ((Parameter("p0", ()), Parameter("p1", (0,))), (), "accept"),
    ((Parameter("p0", (2, 3), strides=(1, 2)),), (), "accept"),
    ((Parameter("p0", (3,), "int64"),), (), "refuse"),
    ((Parameter("p0", (3,), "int64", frozen=True),), (), "accept"),
    ((Parameter("p0", (3,), "uint16", frozen=True),), (), "unspecified"),
    ((PLAIN,), (Divergence(1, "refuses"),), "unspecified"),
]


@pytest.fixture(scope="module")
def one_rank() -> Iterator[Ranks]:
    ranks = Ranks(Pool(1, preload=("pytest", "shardproof.adapters.deepspeed_zero3")))
    yield ranks
    ranks.close()


def answers(context: Context, payload: list[str], blobs: tuple[bytearray, ...]) -> tuple[object, list[bytes]]:
    from shardproof.adapters.deepspeed_zero3 import policy

    return [policy(decode_trusted(text)) for text in payload], []


def test_answers(one_rank: Ranks) -> None:
    program, groups = (Operation("register"),), (Group("main", (0, 1)),)
    cases = [Case(groups, parameters, program, divergences=differ) for parameters, differ, _ in ANSWERS]
    [told] = one_rank.values(answers, [encode(case) for case in cases], world_size=1, deadline=120)
    assert [answer for answer, _, _ in told] == [wanted for _, _, wanted in ANSWERS]
    assert all(reason for _, reason, _ in told)
