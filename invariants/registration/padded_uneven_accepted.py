"""A numel that the world size does not divide is an ordinary one."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import Evidence
from invariants.law import Law, Violation
from invariants.views import Registration, registrations, step_breach, story_of
from reference import Layout


def over(evidence: Evidence) -> Iterator[Registration]:
    """Registrations that must be accepted and hold a parameter whose parts differ in length or are padded."""
    for item in registrations(evidence):
        layouts = (subject.layouts.get(item.answers[0].world_size) for subject in item.subjects)
        if item.expected.wanted == "accept" and any(_uneven(layout) for layout in layouts if layout):
            yield item


def _uneven(layout: Layout) -> bool:
    return layout.padded_numel != layout.numel or layout.owned(0) != layout.owned(layout.world_size - 1)


def check(item: Registration) -> Iterator[Violation]:
    """Every rank accepts."""
    for answer in item.answers:
        if answer.outcome != "done":
            yield step_breach(LAW, answer, story_of(answer), "accepted: ranks own different numbers of elements")


LAW: Law[Registration] = Law(
    slug="padded-uneven-accepted",
    family="registration",
    sentence="Parameters that do not divide evenly over the ranks are accepted, whether that leaves padding, a shorter "
    "part or none at all.",
    why="Nearly every real model has such a parameter. A check that compares what ranks own, instead of what they "
    "store, refuses models that worked before it was added.",
    rows=("R1", "L7"),
    needs=("register",),
    over=over,
    check=check,
)
