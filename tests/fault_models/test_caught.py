"""Every fault model is caught by a law that is named for it, and nothing correct is accused of the same cases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from shardproof.engine import Engine
from shardproof.fault_models.registry import CORRECT, FAULTS, NOT_MODELLED, FaultModel
from tests.fault_models.cases import CASES, SOUND

_BY_SLUG = {fault.slug: fault for fault in FAULTS}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine(CORRECT[0], pool_size=4, deadline=3.0) as engine:
        yield engine


@pytest.mark.parametrize("slug", _BY_SLUG)
def test_caught_by_a_law_of_its_own(engine: Engine, slug: str) -> None:
    fault: FaultModel = _BY_SLUG[slug]
    engine.switch(fault.target)
    verdict = engine.judge(CASES[slug], twice=True)
    assert {violation.law for violation in verdict.broken} & set(fault.laws), "\n".join(map(str, verdict.broken))


@pytest.mark.parametrize("target", CORRECT)
def test_correct_is_not_accused(engine: Engine, target: str) -> None:
    engine.switch(target)
    said = engine.description
    cases = {
        slug: case
        for slug, case in (CASES | SOUND).items()
        if case.layout.kind in said.layouts and {operation.kind for operation in case.program} <= set(said.offers)
    }
    broken = {}
    for slug, case in cases.items():
        verdict = engine.judge(case, twice=True)
        if verdict.broken:
            broken[slug] = verdict.broken
    assert cases
    assert not broken


def test_every_fault_has_a_case() -> None:
    assert CASES.keys() == _BY_SLUG.keys()
    assert len(_BY_SLUG) == len(FAULTS)


def test_every_row_has_a_model_or_a_reason() -> None:
    kinds = {"L": 8, "R": 9, "G": 16, "N": 9, "C": 7}
    rows = {f"{kind}{number}" for kind, most in kinds.items() for number in range(1, most + 1)}
    assert {fault.row for fault in FAULTS} - {"lesson"} == rows - NOT_MODELLED.keys()
