from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from reference import DTYPES
from shardproof.backends import CARRIES
from shardproof.case import Case, LayoutSpec
from shardproof.case_file import encode
from shardproof.case_rules import check
from shardproof.engine import Description
from shardproof.features import FEATURES, features, required
from shardproof.layouts import KINDS
from shardproof.strategies import cases
from tests.search.planted import describe, kinds

ALL = describe(layouts=("flat_padded", "chunk"), alignments=(1, 2, 3, 8))
EVERY = describe(layouts=KINDS, alignments=(1, 2, 3, 8))
FUNCTIONS = describe(form="functions", offers=("gather", "use", "update", "reduce"))
WHOLE_POOL = describe(needs_default_group=True)
ONLY_CHUNK = describe(layouts=("chunk",))
LAYOUT_FEATURES = {"bucket", "several-buckets", "padding-before-last-bucket", "ragged", "replicas", "mesh"}
EIGHT = tuple(range(1, 9))


def drawn(description: Description, number: int, world_sizes: Sequence[int] = EIGHT, start: int = 0) -> list[Case]:
    """The first cases that are drawn."""
    found: list[Case] = []

    @seed(start)
    @settings(
        max_examples=number,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases(description, world_sizes, pool_size=8))
    def keep(case: Case) -> None:
        found.append(case)

    keep()
    return found


@pytest.fixture(scope="module")
def many() -> list[Case]:
    return drawn(ALL, 300)


def test_every_feature_is_there_within_300(many: list[Case]) -> None:
    counts = Counter(name for case in many for name in features(case))
    assert set(FEATURES) - set(counts) == LAYOUT_FEATURES
    assert min(counts[name] for name in required(ALL, EIGHT, 8)) >= 5


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ALL.layouts])
def test_every_feature_of_a_layout_is_there_within_150(kind: str) -> None:
    description = describe(layouts=(kind,), alignments=(1, 2, 3, 8))
    counts = Counter(name for case in drawn(description, 150) for name in features(case))
    assert min(counts[name] for name in required(description, EIGHT, 8)) >= 5


def test_layouts_that_are_named_are_the_only_ones_drawn() -> None:
    only = (LayoutSpec("bucket", bucket_alignment=8), LayoutSpec("grouped", group_size=2))
    found = drawn(describe(layouts=("bucket", "grouped"), specs=only), 100)
    assert {case.layout for case in found} == set(only)
    assert {case.world_size % 2 for case in found if case.layout == only[1]} == {0}


def test_shares(many: list[Case]) -> None:
    """Shares that the design asks for, with room for chance."""
    shares: dict[str, tuple[Callable[[Case], bool], float, float]] = {
        "small worlds": (lambda c: c.world_size <= 4, 0.65, 0.95),
        "world size 8": (lambda c: c.world_size == 8, 0.015, 0.2),
        "not from rank 0, where there is room": (lambda c: c.main.ranks[0] > 0, 0.3, 0.6),
        "divergent": (lambda c: bool(c.divergences), 0.05, 0.2),
        "training": (lambda c: "training" in features(c), 0.15, 0.45),
        "late": (lambda c: bool(c.delays), 0.01, 0.2),
        "padding": (lambda c: "padding" in features(c), 0.5, 0.95),
        "one parameter": (lambda c: len(c.parameters) == 1, 0.2, 0.6),
    }
    for name, (picks, low, high) in shares.items():
        share = sum(map(picks, many)) / len(many)
        assert low <= share <= high, f"{name}: {share}"


def test_few_are_drawn_twice(many: list[Case]) -> None:
    assert len({encode(case) for case in many}) > 0.9 * len(many)


@pytest.mark.parametrize(
    "description",
    [ALL, EVERY, FUNCTIONS, WHOLE_POOL, ONLY_CHUNK],
    ids=["all", "every layout", "functions", "whole pool", "chunk"],
)
def test_every_case_can_be_run(description: Description) -> None:
    for case in drawn(description, 150):
        check(case)
        offered = {*description.offers, "register"}
        assert set(kinds(case)) <= offered
        assert case.layout.kind in description.layouts
        assert {p.dtype for p in case.parameters} <= CARRIES[description.backend]


def test_what_other_layouts_claim_is_always_asked_for() -> None:
    programs = [(case.layout.kind, kinds(case)) for case in drawn(EVERY, 150) if not case.divergences]
    asked = {kind: [program[1:2] == ["layout"] for one, program in programs if one == kind] for kind in KINDS}
    for kind in set(KINDS) - {"flat_padded", "chunk"}:
        assert len(asked[kind]) > 5
        # What none can hold is not registered first.
        assert sum(asked[kind]) >= 0.8 * len(asked[kind])
    assert not all(asked["flat_padded"])


def test_parameters_in_buckets_are_mostly_of_one_dtype() -> None:
    found = [case for case in drawn(describe(layouts=("bucket",)), 150) if len(case.parameters) > 1]
    assert sum(case.parameters[0].dtype == case.parameters[1].dtype for case in found) > len(found) / 2


def test_what_two_functions_cannot_do_is_not_asked_of_them() -> None:
    """They cannot refuse, know nothing of tied parameters, and have sums only."""
    for case in drawn(FUNCTIONS, 150):
        assert not case.divergences
        assert all(parameter.tied_to is None for parameter in case.parameters)
        assert {operation.reduction for operation in case.program} == {"sum"}


def test_a_default_group_takes_the_whole_pool() -> None:
    for case in drawn(WHOLE_POOL, 100):
        assert case.groups == (case.main,)
        assert case.main.ranks == tuple(range(case.world_size))


@pytest.mark.parametrize("world_sizes", [(1,), (2,), (2, 3), (5, 8)])
def test_world_sizes_are_those_asked_for(world_sizes: tuple[int, ...]) -> None:
    found = drawn(ALL, 60, world_sizes)
    assert {case.world_size for case in found} == set(world_sizes)
    assert {len(group.ranks) for case in found for group in case.groups} <= set(world_sizes)
    assert max(case.pool_size for case in found) <= 8


def test_the_first_case_is_the_simplest() -> None:
    assert encode(drawn(ALL, 1)[0]) == (
        '{"version":1,"groups":[{"name":"main","ranks":[0]}],'
        '"parameters":[{"id":"p0","shape":[1]}],"program":[{"kind":"register"}]}'
    )


def test_a_seed_gives_the_same_cases() -> None:
    assert drawn(ALL, 40, start=3) == drawn(ALL, 40, start=3)
    assert drawn(ALL, 40, start=3) != drawn(ALL, 40, start=4)


def test_gradients_are_of_dtypes_that_have_them(many: list[Case]) -> None:
    for parameter in (parameter for case in many for parameter in case.parameters):
        assert parameter.frozen or DTYPES[parameter.dtype].kind == "float"


@pytest.mark.parametrize("world_sizes", [(), (0, 1), (1, 9)])
def test_world_sizes_that_do_not_fit(world_sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="world sizes"):
        cases(ALL, world_sizes, pool_size=8)


def test_layouts_without_a_model() -> None:
    with pytest.raises(ValueError, match="layouts"):
        cases(describe(layouts=("spiral",)))
