"""No rank stores more than the layout's own rounding asks for."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.views import Claims, claims_owing


def check(item: Claims) -> Iterator[Violation]:
    """Shard numel and padded numel are the least that hold the parameter: the model's."""
    layout = item.layout
    for rank, claim in item.ranked:
        if claim.shard_numel != layout.shard_numel(rank):
            expected = f"a shard of {layout.shard_numel(rank)}"
            yield item.breach(LAW, rank, f"a shard of {claim.shard_numel} elements", expected)
        if claim.padded_numel != layout.padded_numel:
            expected = f"{layout.padded_numel} for {layout.numel} elements on {layout.world_size} ranks"
            yield item.breach(LAW, rank, f"padded numel {claim.padded_numel}", expected)


LAW: Law[Claims] = Law(
    slug="padding-minimal",
    family="layout",
    sentence="A shard is as long as its part of the parameter and the layout's rounding make it, and no longer.",
    why="Every element of padding is stored, sent and received on every step. Lengths that are computed in floating "
    "point, or padded twice, still look right on small parameters.",
    rows=("L5", "G15", "G16"),
    needs=("layout",),
    over=claims_owing("padding-minimal"),
    check=check,
)
