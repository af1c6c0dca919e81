"""What a planted fault shrinks to: the smallest case that a person would write by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from shardproof.case import Case, Group, LayoutSpec, Operation, Parameter
from shardproof.layouts import layout_of
from shardproof.profiles import Budget
from shardproof.search import Plan, search
from tests.search.planted import Planted, describe, kinds

BUDGET = Budget(examples=400, seconds=300, shrink_seconds=300)
BOTH = describe(layouts=("flat_padded", "chunk"), alignments=(1, 2, 8))


def gathers(case: Case) -> bool:
    return "gather" in kinds(case)


def padded(case: Case) -> bool:
    layouts = [layout_of(case.layout, p.shape, case.world_size) for p in case.parameters]
    return gathers(case) and any(layout.padded_numel > layout.numel for layout in layouts)


def updated_before_gather(case: Case) -> bool:
    seen = kinds(case)
    return "update" in seen and "gather" in seen[seen.index("update") :]


def world(size: int) -> tuple[Group, ...]:
    return (Group("main", tuple(range(size))),)


def program(*names: str) -> tuple[Operation, ...]:
    return tuple(Operation(name) for name in names)  # type: ignore[arg-type]  # kinds by name


ONE = Parameter("p0", (1,))
TWO = (ONE, Parameter("p1", (1,)))
GATHER = program("register", "gather")
# What is wrong, and the smallest case that shows it.
FAULTS: dict[str, tuple[Callable[[Case], bool], Case]] = {
    "always": (lambda _: True, Case(world(1), (ONE,), program("register"))),
    "any gather": (gathers, Case(world(1), (ONE,), GATHER)),
    "padding": (padded, Case(world(2), (ONE,), GATHER)),
    "three ranks": (lambda c: gathers(c) and c.world_size >= 3, Case(world(3), (ONE,), GATHER)),
    "world size 8": (lambda c: gathers(c) and c.world_size == 8, Case(world(8), (ONE,), GATHER)),
    "empty": (
        lambda c: any(not p.numel for p in c.parameters),
        Case(world(1), (Parameter("p0", (0,)),), program("register")),
    ),
    "scalar": (
        lambda c: any(not p.shape for p in c.parameters),
        Case(world(1), (Parameter("p0", ()),), program("register")),
    ),
    "two parameters": (lambda c: len(c.parameters) > 1, Case(world(1), TWO, program("register"))),
    "second dtype": (
        lambda c: any(p.dtype == "bfloat16" for p in c.parameters[1:]),
        Case(world(1), (ONE, Parameter("p1", (1,), "bfloat16")), program("register")),
    ),
    "bfloat16 anywhere": (
        lambda c: any(p.dtype == "bfloat16" for p in c.parameters),
        Case(world(1), (Parameter("p0", (1,), "bfloat16"),), program("register")),
    ),
    "storage offset": (
        lambda c: gathers(c) and any(p.storage_offset for p in c.parameters),
        Case(world(1), (Parameter("p0", (1,), storage_offset=1),), GATHER),
    ),
    "update then gather": (updated_before_gather, Case(world(1), (ONE,), program("register", "update", "gather"))),
    "prefetch": (lambda c: "wait" in kinds(c), Case(world(1), (ONE,), program("register", "prefetch", "wait"))),
    "reduction over ranks": (
        lambda c: "reduce" in kinds(c) and c.world_size > 1,
        Case(world(2), (ONE,), program("register", "reduce")),
    ),
    "norm": (
        lambda c: "norm" in kinds(c) and "backward" not in kinds(c),
        Case(world(1), (ONE,), program("register", "reduce", "norm")),
    ),
    "release": (lambda c: "release" in kinds(c), Case(world(1), (ONE,), program("register", "gather", "release"))),
    "more than five elements": (
        lambda c: gathers(c) and any(p.numel > 5 for p in c.parameters),
        Case(world(1), (Parameter("p0", (6,)),), GATHER),
    ),
    "elements not a multiple of three ranks": (
        lambda c: gathers(c) and c.world_size == 3 and any(p.numel % 3 for p in c.parameters),
        Case(world(3), (ONE,), GATHER),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_shrinks_to(name: str) -> None:
    fault, smallest = FAULTS[name]
    result = search(Planted({"planted-law": fault}), Plan(budget=BUDGET))
    assert [failure.case for failure in result.failures] == [smallest]


def test_an_inner_dim_shrinks_to_the_smallest_shape_that_has_one() -> None:
    fault = lambda case: case.layout.kind == "chunk" and case.layout.dim == 1  # noqa: E731  # a row of the table above
    (failure,) = search(Planted({"planted-law": fault}, BOTH), Plan(budget=BUDGET)).failures
    assert failure.case == Case(
        world(1), (Parameter("p0", (1, 1)),), program("register"), LayoutSpec(kind="chunk", dim=1)
    )


def test_an_alignment_shrinks_to_the_smallest_that_shows_it() -> None:
    fault = lambda case: case.layout.alignment > 1 and gathers(case)  # noqa: E731  # as above
    (failure,) = search(Planted({"planted-law": fault}, BOTH), Plan(budget=BUDGET)).failures
    assert failure.case == Case(world(1), (ONE,), GATHER, LayoutSpec(alignment=2))


def transposed(p: Parameter) -> bool:
    return len(p.shape) == 2 and min(p.shape) > 1 and p.strides is not None and p.strides[0] < p.strides[1]


def test_transposed_memory_needs_two_rows_and_two_columns() -> None:
    fault = lambda case: gathers(case) and any(map(transposed, case.parameters))  # noqa: E731  # as above
    (failure,) = search(Planted({"planted-law": fault}), Plan(budget=BUDGET)).failures
    (parameter,) = failure.case.parameters
    assert (parameter.shape, parameter.strides) == ((2, 2), (1, 2))
    assert failure.case.program == GATHER


def test_a_divergence_shrinks_to_two_ranks() -> None:
    fault = lambda case: bool(case.divergences) and case.world_size > 1  # noqa: E731  # as above
    (failure,) = search(Planted({"planted-law": fault}), Plan(budget=BUDGET)).failures
    assert (failure.case.world_size, failure.case.parameters, kinds(failure.case)) == (2, (ONE,), ["register"])
    assert len(failure.case.divergences) == 1


def resharded(case: Case) -> bool:
    return any(operation.kind == "load" and operation.group == "other" for operation in case.program)


def test_a_reshard_shrinks_to_a_save_and_a_load() -> None:
    (failure,) = search(Planted({"planted-law": resharded}), Plan(budget=BUDGET)).failures
    assert sorted(len(group.ranks) for group in failure.case.groups) == [1, 1]
    assert kinds(failure.case) == ["register", "save", "load"]
