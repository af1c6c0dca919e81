"""All that laws say of the planted faults, word for word, and how much of the good run each looks at."""

from __future__ import annotations

from types import ModuleType

import pytest
from syrupy.assertion import SnapshotAssertion

from invariants import LAWS, Evidence, find, judge
from tests.invariants.good import good_evidence
from tests.invariants.planted import collectives, gather, layout, life, promises, reduction, registration, state
from tests.invariants.plants import Plant

FAMILIES = (layout, registration, gather, life, collectives, reduction, state, promises)


def said(slug: str, plant: Plant, good: Evidence) -> str:
    """The fault's name, how many items the law looked at, and a line a violation."""
    judgement = judge(find(slug), plant.broken(good))
    return "\n    ".join([f"  {plant.name} ({judgement.judged} judged)", *map(str, judgement.violations)])


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__.rpartition(".")[2])
def test_every_violation_is_told_in_these_words(family: ModuleType, text_file: SnapshotAssertion) -> None:
    good = good_evidence()
    told = [[slug, *(said(slug, plant, good) for plant in plants)] for slug, plants in family.PLANTED.items()]
    assert "\n".join("\n".join(lines) for lines in told) + "\n" == text_file


def test_laws_look_at_so_many_items(text_file: SnapshotAssertion) -> None:
    judgements = [judge(law, good_evidence()) for law in LAWS]
    lines = [f"{one.law}: {one.judged} {one.outcome} {one.reason}".rstrip() for one in judgements]
    assert "\n".join(lines) + "\n" == text_file
