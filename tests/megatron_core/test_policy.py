"""What Megatron-Core's documentation promises, case by case."""

from __future__ import annotations

import pytest

from shardproof.adapters.megatron_core_policy import policy
from shardproof.case import Case, Divergence, Group, Operation, Parameter

PLAIN = Parameter("p0", (3,))
REGISTER, REDUCE = Operation("register"), Operation("reduce", ("p0",))
ANSWERS = [
    ((PLAIN,), (), (REGISTER,), "accept"),
    ((Parameter("p0", ()), Parameter("p1", (0,), "bfloat16")), (), (REGISTER,), "accept"),
    ((Parameter("p0", (2, 3), "float16", strides=(1, 2)),), (), (REGISTER,), "accept"),
    ((PLAIN, Parameter("p1", (3,), tied_to="p0")), (), (REGISTER,), "accept"),
    ((Parameter("p0", (3,), frozen=True),), (), (REGISTER,), "unspecified"),
    ((Parameter("p0", (3,), "float64"),), (), (REGISTER,), "unspecified"),
    ((Parameter("p0", (3,), "bfloat16", grad_dtype="float32"),), (), (REGISTER,), "unspecified"),
    ((Parameter("p0", (3,), comm_dtype="bfloat16"),), (), (REGISTER,), "unspecified"),
    ((PLAIN,), (Divergence(1, "refuses"),), (REGISTER,), "unspecified"),
    ((PLAIN, Parameter("p1", (3,))), (), (REGISTER, Operation("accumulate"), REDUCE), "unspecified"),
    ((PLAIN, Parameter("p1", (3,))), (), (REGISTER, Operation("accumulate", ("p0",)), REDUCE), "accept"),
]


@pytest.mark.parametrize(("parameters", "differ", "program", "wanted"), ANSWERS)
def test_answers(
    parameters: tuple[Parameter, ...], differ: tuple[Divergence, ...], program: tuple[Operation, ...], wanted: str
) -> None:
    answer, reason, link = policy(Case((Group("main", (0, 1)),), parameters, program, divergences=differ))
    assert answer == wanted
    assert reason
    assert link.startswith("https://")
