"""Ranks whose program ends in an error leave those of another group nothing to wait for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shardproof.case import Case, Group, Operation, Parameter
from shardproof.engine import Engine

# Gradients accumulated in float32, and a backward's in bfloat16: gpu_impl adds no two dtypes up, and says so.
MIXED = Parameter("p0", (3,), "bfloat16", grad_dtype="float32")
TRAIN = (Operation("accumulate"), Operation("forward"), Operation("backward"))
ELSEWHERE = (Operation("load", group="other"), Operation("gather", group="other"))
PROGRAMS = {
    "before the save": (Operation("register"), *TRAIN, Operation("save"), *ELSEWHERE),
    "after the save": (Operation("register"), Operation("save"), *TRAIN, *ELSEWHERE),
}
GROUPS = {"smaller": ((0,), (0, 1, 2)), "larger": ((0, 1, 2), (1,)), "apart": ((0, 1), (2,))}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine("gpu_impl", pool_size=3, deadline=60) as opened:
        yield opened


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_nobody_is_left_waiting(engine: Engine, groups: str, program: str) -> None:
    main, other = GROUPS[groups]
    case = Case((Group("main", main), Group("other", other)), (MIXED,), PROGRAMS[program])
    verdict = engine.judge(case, twice=False)
    assert verdict.evidence.ranks[main[0]].steps[-1].error.startswith("TypeError: gradient")
    assert {story.ended for story in verdict.evidence.ranks} == {"done"}
    assert verdict.broken == ()
