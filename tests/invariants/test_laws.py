"""Every law accepts what is right, refuses what is planted, says where, and stays silent about what it has not seen."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import invariants
from invariants import LAWS, ROWS, Evidence, Law, find, judge
from tests.invariants.good import Break, good_evidence
from tests.invariants.planted import collectives, gather, layout, life, promises, reduction, registration, state
from tests.invariants.plants import Plant

FAMILIES = (layout, registration, gather, life, collectives, reduction, state, promises)
PLANTED = {slug: plants for family in FAMILIES for slug, plants in family.PLANTED.items()}
UNJUDGED = {slug: breaks for family in FAMILIES for slug, breaks in family.UNJUDGED.items()}

# These look at refusals only, or at buckets, which there are none of where all is well: what they accept stands here.
ACCEPTED: dict[str, Break] = {
    "buckets-divisible": layout.IN_BUCKETS,
    "buckets-tile": layout.IN_BUCKETS,
    "uniform-manifest": registration.ALL_REFUSE,
    "refused-everywhere": registration.ALL_REFUSE,
}

_ROOM = Path(invariants.__file__).parent


def _each() -> Iterator[Any]:
    for slug, plants in PLANTED.items():
        yield from (pytest.param(slug, plant, id=f"{slug}: {plant.name}") for plant in plants)


@pytest.fixture
def good() -> Evidence:
    return good_evidence()


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.slug)
def test_accepts_what_is_right(law: Law[Any], good: Evidence) -> None:
    judgement = judge(law, ACCEPTED.get(law.slug, lambda evidence: evidence)(good))
    assert (judgement.outcome, judgement.violations, judgement.reason) == ("held", (), "")


@pytest.mark.parametrize(("slug", "plant"), list(_each()))
def test_refuses_what_is_planted(slug: str, plant: Plant, good: Evidence) -> None:
    judgement = judge(find(slug), plant.broken(good))
    assert judgement.outcome == "broken"
    assert all(violation.law == slug for violation in judgement.violations)
    # The first one that says it must also say where.
    said = next(v for v in judgement.violations if plant.says in v.observed and plant.rank in (None, v.rank))
    for place in ("parameter", "step", "offset"):
        assert getattr(plant, place) in (None, getattr(said, place))
    assert said.expected


@pytest.mark.parametrize(
    ("slug", "unseen"), [pytest.param(slug, one, id=slug) for slug, breaks in UNJUDGED.items() for one in breaks]
)
def test_is_not_judged_on_what_it_has_not_seen(slug: str, unseen: Break, good: Evidence) -> None:
    judgement = judge(find(slug), unseen(good))
    assert (judgement.outcome, judgement.violations) == ("not judged", ())
    assert judgement.reason


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.slug)
def test_has_planted_cases(law: Law[Any]) -> None:
    assert PLANTED.get(law.slug)
    assert UNJUDGED.get(law.slug)


def test_every_planted_case_is_for_a_law() -> None:
    assert PLANTED.keys() == UNJUDGED.keys() == {law.slug for law in LAWS}


def test_texts_are_short_and_say_numbers_not_objects(good: Evidence) -> None:
    for slug, plants in PLANTED.items():
        for plant in plants:
            for violation in judge(find(slug), plant.broken(good)).violations:
                for text in (violation.observed, violation.expected):
                    assert 0 < len(text) < 160
                    assert "\n" not in text
                    assert "(storage=" not in text
                    assert "object at" not in text


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.slug)
def test_lives_in_a_file_of_its_own_name(law: Law[Any]) -> None:
    module = import_module(f"invariants.{law.family}.{law.slug.replace('-', '_')}")
    assert module.LAW is law
    assert law.check.__module__ == module.__name__


def test_every_law_file_is_in_the_catalogue() -> None:
    families = {law.family for law in LAWS}
    files = {path.stem for family in families for path in (_ROOM / family).glob("*.py")} - {"__init__"}
    assert files == {law.slug.replace("-", "_") for law in LAWS}
    assert len(LAWS) == len({law.slug for law in LAWS})


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.slug)
def test_reads_well_on_a_page(law: Law[Any]) -> None:
    for text in (law.sentence, law.why):
        assert text[0].isupper()
        assert text.endswith(".")
        assert "  " not in text
    assert set(law.rows) <= set(ROWS)
    assert len(set(law.rows)) == len(law.rows)
    assert law.is_promise == (law.family == "promises")


def test_every_known_fault_has_a_law() -> None:
    assert {row for law in LAWS for row in law.rows} == set(ROWS)


def test_no_law_depends_on_another(good: Evidence) -> None:
    evidences = [plants[0].broken(good) for plants in PLANTED.values()]
    alone = [[judge(law, evidence) for evidence in evidences] for law in LAWS]
    shuffled = list(enumerate(LAWS))
    random.Random(0).shuffle(shuffled)
    for number, evidence in enumerate(evidences):
        for place, law in shuffled:
            assert judge(law, evidence) == alone[place][number]


def test_no_law_imports_another() -> None:
    laws = {f"invariants.{law.family}.{law.slug.replace('-', '_')}" for law in LAWS}
    families = {f"invariants.{law.family}" for law in LAWS}
    for name in laws:
        tree = ast.parse(Path(import_module(name).__file__ or "").read_text())
        imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not imported & (laws | families)
