"""A rank whose part starts at or past the end owns nothing, and that is all right."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import Evidence
from invariants.law import Law, Violation
from invariants.views import Claims, claims


def over(evidence: Evidence) -> Iterator[Claims]:
    """Claims about parameters of which some rank owns nothing, by the model or by the claim."""
    for item in claims(evidence):
        ranks = range(item.layout.world_size)
        said = any(not claim.runs for _, claim in item.ranked)
        if "empty-shard-legal" in item.layout.owes and (said or any(item.layout.owned(rank) == 0 for rank in ranks)):
            yield item


def check(item: Claims) -> Iterator[Violation]:
    """Owned elements are nowhere negative, and none exactly where the model says none."""
    for rank, claim in enumerate(item.claims):
        owned = item.layout.owned(rank)
        expected = f"{owned} elements owned" if owned else "an empty shard"
        if claim is None:
            yield item.breach(LAW, rank, item.problems[rank], expected)
            continue
        said = sum(run.numel for run in claim.runs)
        if min(said, claim.shard_numel) < 0:
            yield item.breach(LAW, rank, f"{said} owned in a shard of {claim.shard_numel}", expected)
        elif (said == 0) != (owned == 0):
            yield item.breach(LAW, rank, f"{said} elements owned", expected)


LAW: Law[Claims] = Law(
    slug="empty-shard-legal",
    family="layout",
    sentence="A rank owns nothing exactly where its part starts at or past the parameter's end, and never less than "
    "nothing.",
    why="Small parameters and large worlds leave ranks with padding only. Code that does not clamp asks for a "
    "negative length there, and code that takes emptiness for an error refuses a sound model.",
    rows=("L1", "L7", "C2"),
    needs=("layout",),
    over=over,
    check=check,
)
