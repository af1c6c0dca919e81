"""Ranks of two groups that share a file wait for each other, and not for those whose program has ended in an error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shardproof.case import Case, Delay, Group, Operation, Parameter
from shardproof.engine import Engine
from tests.engine import savers

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


SHARED = (
    *(Operation("register"), Operation("save"), Operation("load"), Operation("load", group="other")),
    *(Operation("save", group="other"), Operation("gather"), Operation("gather", group="other")),
)


@pytest.mark.parametrize("late", range(2))
@pytest.mark.parametrize("groups", GROUPS)
def test_nobody_writes_over_what_another_group_still_reads(groups: str, late: int) -> None:
    main, other = GROUPS[groups]
    delays = (Delay(late, 2, 100),) if late < len(main) else ()
    case = Case((Group("main", main), Group("other", other)), (Parameter("p0", (3,)),), SHARED, delays=delays)
    with Engine(f"{savers.__name__}:Slow", pool_size=3, deadline=60) as opened:
        assert opened.judge(case, twice=False).broken == ()


@pytest.mark.parametrize("groups", GROUPS)
def test_nobody_waits_for_a_reader_that_has_stopped(engine: Engine, groups: str) -> None:
    main, other = GROUPS[groups]
    program = (Operation("register"), Operation("save"), *TRAIN, Operation("load"), *ELSEWHERE[:1])
    writes_over = (*program, Operation("save", group="other"))
    case = Case((Group("main", main), Group("other", other)), (MIXED,), writes_over)
    verdict = engine.judge(case, twice=False)
    assert {story.ended for story in verdict.evidence.ranks} == {"done"}
    assert verdict.broken == ()
