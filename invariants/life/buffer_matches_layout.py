"""A buffer that a result is a view of is as large as the layout says."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import Evidence
from invariants.law import Law, Violation
from invariants.views import Landed, breach, extent, landed, span
from reference import DTYPES, Layout


def over(evidence: Evidence) -> Iterator[Landed]:
    """Results that lie in memory which the last all-gather before them received into."""
    for item in landed(evidence):
        if item.calls and any(buffer.storage == item.seen.storage for buffer in item.calls[-1].recv):
            yield item


def check(item: Landed) -> Iterator[Violation]:
    """The result lies inside what was received; one buffer for all ranks' shards holds the padded numel."""
    buffers = (buffer for call in item.calls for buffer in call.recv if buffer.storage == item.seen.storage)
    spans = [found for found in map(span, buffers) if found is not None]
    result = extent(item.seen)
    if result is None or not spans:
        return
    start, end = min([one.start for one in spans]), max([one.end for one in spans])
    if result.start < start or result.end > end:
        observed = f"a result in bytes [{result.start}, {result.end}) of its memory"
        yield breach(LAW, item, observed, f"inside what was received, [{start}, {end})")
    padded = padded_numel(item.layout)
    needed = padded * DTYPES[item.seen.dtype].itemsize
    if all(len(call.recv) == len(call.send) for call in item.calls) and end - start < needed:
        expected = f"{needed}, the padded numel {padded}"
        yield breach(LAW, item, f"a gather buffer of {end - start} bytes", expected)


def padded_numel(layout: Layout) -> int:
    """Elements that equal counts need. Out of a bucket, a parameter's own parts may be gathered without the rest."""
    if layout.kind != "bucket":
        return layout.padded_numel
    return layout.world_size * max(layout.shard_numel(rank) for rank in range(layout.world_size))


LAW: Law[Landed] = Law(
    slug="buffer-matches-layout",
    family="life",
    sentence="A buffer that is gathered into and handed out as the parameter holds the layout's padded numel in the "
    "parameter's dtype.",
    why="An all-gather writes whole shards, padding included. A buffer of the logical numel is overrun or cut short, "
    "and one that is reused for its number of elements alone may be of another dtype.",
    rows=("G1", "G4", "G16"),
    needs=("gather",),
    over=over,
    check=check,
)
