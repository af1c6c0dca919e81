"""Pieces that several laws stand on: spans of memory, the roundings of a norm, what a step's story says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from invariants import Buffer, Evidence, Expected, RankStory, Seen, Step, Subject, norm_rounding
from invariants.views import Span, extent, registrations, span, story_of
from reference import FlatPadded
from tests.invariants.good import GATHER, good_evidence

MEETINGS = (
    (Span(1, 0, 8), Span(1, 4, 12), True),
    (Span(1, 0, 8), Span(1, 2, 3), True),
    (Span(1, 0, 8), Span(1, 8, 12), False),
    (Span(1, 0, 8), Span(2, 0, 8), False),
)

SPANS = (
    (Buffer(3, "float32", True, 7, 2), Span(7, 8, 20)),
    (Buffer(3, "bfloat16", True, 7), Span(7, 0, 6)),
    (Buffer(0, "float32", True, 7), None),
    (Buffer(3, "float32", False, 7), None),
    (Buffer(3, "float8_unheard_of", True, 7), None),
)

EXTENTS = (
    (Seen("float32", (2, 3), bytes(24), strides=(3, 1), offset=1, storage=7), Span(7, 4, 28)),
    (Seen("int8", (2, 3), bytes(6), strides=(1, 2), storage=7), Span(7, 0, 6)),
    (Seen("int8", (2,), bytes(2), strides=(4,), storage=7), Span(7, 0, 5)),
    (Seen("float64", (), bytes(8), storage=7), Span(7, 0, 8)),
    (Seen("float32", (0, 3), b"", strides=(3, 1), storage=7), None),
    (Seen("float8_unheard_of", (1,), b"1", strides=(1,), storage=7), None),
)

# dtype, shape, how much a norm may be off at world size 2.
ROUNDINGS = (
    ("float32", (5,), (5 + 4) * 2.0**-24),
    ("float64", (5,), 5 * 2.0**-24 + 4 * 2.0**-53),
    ("bfloat16", (5,), 5 * 2.0**-24 + 4 * 2.0**-8),
    ("float8_e5m2", (5,), 0.25),
    ("int32", (5,), (5 + 4) * 2.0**-24),
)

STORIES = (
    (Step(0, "gather", (), 0, 2), "gather done"),
    (Step(0, "gather", (), 0, 2, "raised", "ValueError: a\nTraceback"), "gather raised: ValueError: a"),
    (Step(0, "gather", (), 0, 2, "lost", "exited with code 3"), "gather lost: the rank exited with code 3"),
    (Step(0, "gather", (), 0, 2, "lost"), "gather lost: the rank did not come back"),
    (Step(0, "save", (), 0, 2, "raised", "x" * 100), f"save raised: {'x' * 100}"),
    (Step(0, "save", (), 0, 2, "raised", "x" * 101), f"save raised: {'x' * 99}…"),
    (Step(0, "save", (), 0, 2, "raised", "x" * 300), f"save raised: {'x' * 99}…"),
)


@pytest.mark.parametrize(("one", "other", "meet"), MEETINGS)
def test_spans_meet(one: Span, other: Span, meet: bool) -> None:
    assert one.meets(other) == other.meets(one) == meet


@pytest.mark.parametrize(("buffer", "expected"), SPANS)
def test_span_of_a_buffer(buffer: Buffer, expected: Span | None) -> None:
    assert span(buffer) == expected


@pytest.mark.parametrize(("seen", "expected"), EXTENTS)
def test_extent_of_a_tensor(seen: Seen, expected: Span | None) -> None:
    assert extent(seen) == expected


@pytest.mark.parametrize(("dtype", "shape", "room"), ROUNDINGS)
def test_norm_rounding(dtype: str, shape: tuple[int, ...], room: float) -> None:
    for own, of_gradient in ((dtype, None), (dtype, dtype), (dtype, "int8"), ("int8", dtype)):
        subject = Subject("p", shape, own, {2: FlatPadded(shape, 2)}, grad_dtype=of_gradient)
        assert norm_rounding((subject,), 2) == room


@pytest.mark.parametrize(("step", "story"), STORIES)
def test_story_of_a_step(step: Step, story: str) -> None:
    assert story_of(step) == story


def test_one_step_on_all_ranks_is_in_group_order() -> None:
    evidence = good_evidence()
    backwards = replace(evidence, ranks=evidence.ranks[::-1])
    assert [(step.index, step.rank) for step in backwards.across(GATHER)] == [(GATHER, 0), (GATHER, 1)]
    assert backwards.across(len(evidence.expected)) == ()


@pytest.mark.parametrize(("lost_in", "world_size", "passed"), [(0, 2, False), (2, 2, True), (2, 1, False)])
def test_a_rank_lost_later_has_accepted_an_earlier_registration(lost_in: int, world_size: int, passed: bool) -> None:
    answer = Step(1, "register", (), 0, 2, "refused", "ValueError: narrow")
    known = Step(lost_in, "gather", (), 1, world_size, "lost")
    ranks = (RankStory(0, "done", (answer,)), RankStory(1, "hung", (known,)))
    (registration,) = registrations(Evidence(2, {}, ranks, (Expected(),) * 3))
    assert registration.answers == (answer, *[replace(answer, rank=1, outcome="done", error="")] * passed)
