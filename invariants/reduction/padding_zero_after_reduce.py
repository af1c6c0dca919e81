"""The padding of a reduced gradient is zero."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.bits import difference, owned_mask
from invariants.evidence import Evidence
from invariants.law import Law, Violation
from invariants.views import Reduced, breach, reductions


def over(evidence: Evidence) -> Iterator[Reduced]:
    """Reduced shards that have padding, in the length and dtype that the layout says."""
    for item in reductions(evidence):
        length = item.layout.shard_numel(item.step.rank)
        whole = item.seen is not None and len(item.seen.bits) == length * item.itemsize
        if whole and length > item.layout.owned(item.step.rank):
            yield item


def check(item: Reduced) -> Iterator[Violation]:
    """Every byte of padding is zero."""
    bits = item.seen.bits if item.seen is not None else b""
    padding = ~owned_mask(item.layout, item.step.rank)
    found = difference(bits, bytes(len(bits)), item.itemsize, padding)
    if found is not None:
        yield breach(LAW, item, f"{found.observed} in the padding, at shard offset {found.first}", "zero")


LAW: Law[Reduced] = Law(
    slug="padding-zero-after-reduce",
    family="reduction",
    sentence="After a reduce-scatter, the padding of every shard is zero.",
    why="Optimizers and norms run over whole shards. What lies in the padding then enters norms, moments and matrix "
    "operations; with packed buffers it is the next parameter's gradient.",
    rows=("N1", "N2"),
    needs=("reduce",),
    over=over,
    check=check,
)
