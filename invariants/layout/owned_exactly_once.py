"""The ranks' parts tile the parameter: nothing is missing, nothing is there twice."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.runs import by_offset, first_missing, first_shared, well_formed
from invariants.views import Claims, claims
from reference import Run


def check(item: Claims) -> Iterator[Violation]:
    """Each rank's runs fit its shard and the parameter; all runs together hold each element once."""
    misfits = list(_misfits(item))
    yield from misfits
    if misfits:
        return
    runs = [(rank, run) for rank, claim in item.ranked for run in claim.runs]
    shared = first_shared(runs)
    if shared is not None:
        one, other, element = shared
        owners = f"twice on rank {one}" if one == other else f"on ranks {min(one, other)} and {max(one, other)}"
        yield item.breach(LAW, other, f"element {element} {owners}", "each element once", element)
        return
    missing = first_missing([run for _, run in runs], item.layout.numel)
    if missing is not None:
        held = sum(run.numel for _, run in runs)
        observed = f"element {missing} on no rank ({held} of {item.layout.numel} elements are owned)"
        yield item.breach(LAW, None, observed, "each element on one rank", missing)


def _misfits(item: Claims) -> Iterator[Violation]:
    numel = item.layout.numel
    for rank, claim in enumerate(item.claims):
        if claim is None:
            yield item.breach(LAW, rank, item.problems[rank], f"a layout of {numel} elements")
            continue
        for run in claim.runs:
            inside = 0 <= run.local <= claim.shard_numel - run.numel
            if not well_formed(run, numel) or not inside:
                expected = f"elements of [0, {numel}) in a shard of {claim.shard_numel}, each once"
                yield item.breach(LAW, rank, _words(run), expected, run.start)
        for one, other in by_offset(claim.runs):
            if one.local + one.numel > other.local:
                yield item.breach(LAW, rank, f"two elements at shard offset {other.local}", "one at each offset")


def _words(run: Run) -> str:
    return f"{run.count} blocks of {run.length}, {run.stride} apart, from element {run.start} at offset {run.local}"


LAW: Law[Claims] = Law(
    slug="owned-exactly-once",
    family="layout",
    sentence="Each element of the parameter is stored on exactly one rank, once.",
    why="An element that no rank stores is never updated and comes back as whatever lay in the buffer; one that two "
    "ranks store is updated twice or differently. Floor division and starts past the end are the usual ways there.",
    rows=("L1", "L2", "L6", "G15"),
    needs=("layout",),
    over=lambda evidence: (item for item in claims(evidence) if "owned-exactly-once" in item.layout.owes),
    check=check,
)
