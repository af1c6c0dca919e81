"""Shards are of one length, and each rank's part starts where its shard starts."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.views import Claims, claims_owing


def check(item: Claims) -> Iterator[Violation]:
    """padded numel = W * shard numel on every rank, and shard offset i of rank r holds element r * shard numel + i."""
    world_size = item.layout.world_size
    for rank, claim in item.ranked:
        if claim.padded_numel != world_size * claim.shard_numel:
            observed = f"padded numel {claim.padded_numel} and shards of {claim.shard_numel}"
            yield item.breach(LAW, rank, observed, f"{world_size} shards of one length, end to end")
        for run in claim.runs:
            start = rank * claim.shard_numel + run.local
            if run.start != start:
                observed = f"element {run.start} at shard offset {run.local}"
                yield item.breach(LAW, rank, observed, f"element {start}, {rank} whole shards on", run.start)


LAW: Law[Claims] = Law(
    slug="boundaries-divisible",
    family="layout",
    sentence="Padded lengths are whole multiples of the world size, and every boundary between ranks is at a multiple "
    "of the shard length.",
    why="Collectives with equal counts cut a buffer into equal parts. A boundary that lies elsewhere splits the "
    "buffer between the wrong elements, and only for some world sizes.",
    rows=("G15",),
    needs=("layout",),
    over=claims_owing("boundaries-divisible"),
    check=check,
)
