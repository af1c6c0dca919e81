"""Items are picked once an evidence, however many laws ask."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from invariants import LAWS, Evidence, judge
from invariants.once import once, picker
from tests.invariants.good import GATHER, change, flipped, good_evidence


def test_the_same_evidence_is_looked_at_once() -> None:
    asked: list[Evidence] = []

    @picker
    def pick(evidence: Evidence) -> Iterator[int]:
        asked.append(evidence)
        yield len(asked)

    good = good_evidence()
    assert [pick(good), pick(good)] == [(1,), (1,)]
    assert pick(replace(good)) == (2,)  # equal, but another one
    assert pick(good) == (3,)
    assert asked[0] is asked[2] is good


def test_an_answer_of_none_is_an_answer_too() -> None:
    asked: list[int] = []
    find = once(lambda evidence: asked.append(evidence.world_size))
    good = good_evidence()
    assert [find(good), find(good)] == [None, None]
    assert asked == [2]


def test_laws_do_not_remember_another_evidence() -> None:
    good = good_evidence()
    bad = change(GATHER, 0, results=flipped("a", 0))(good)
    for law in LAWS:
        fresh = judge(law, good_evidence())
        judge(law, bad)
        assert judge(law, good) == fresh
