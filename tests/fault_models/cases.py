"""One small case a fault model, written by hand: it shows the fault, and is sound for a correct implementation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shardproof.case import Case, Delay, Divergence, Group, LayoutSpec, Operation, Parameter


def case(
    shapes: Sequence[tuple[int, ...]],
    world_size: int,
    program: str,
    *,
    other: int = 1,
    late: Sequence[tuple[int, int]] = (),
    differs: Divergence | None = None,
    alignment: int = 1,
    layout: LayoutSpec | None = None,
    **traits: dict[str, Any],
) -> Case:
    """Parameters a, b, c of these shapes. A program reads "gather a; wait a b; reduce a: mean; step=5; load in other".

    `late` are (rank, operation) pairs that sleep. `traits` are fields of the parameters by id.
    """
    ids = "abc"[: len(shapes)]
    parameters = [Parameter(id, shape) for id, shape in zip(ids, shapes, strict=True)]
    groups = [Group("main", tuple(range(1, world_size + 1)))]
    operations = tuple(_operation(words) for words in program.split("; "))
    if any(operation.group == "other" for operation in operations):
        groups.append(Group("other", tuple(range(other))))
    return Case(
        groups=tuple(groups),
        parameters=tuple(replace(p, **traits.get(p.id, {})) for p in parameters),
        program=operations,
        layout=layout or LayoutSpec(alignment=alignment),
        divergences=(differs,) if differs else (),
        delays=tuple(Delay(rank, operation, 40) for rank, operation in late),
    )


def _operation(words: str) -> Operation:
    words, _, mean = words.partition(": ")
    words, _, group = words.partition(" in ")
    kind, *ids = words.split()
    kind, _, value = kind.partition("=")
    reduction = "mean" if mean else "sum"
    return Operation(kind, tuple(ids), group or "main", int(value or 0), reduction)  # type: ignore[arg-type]


_GATHER = "register; gather"
_ASYNC = "register; prefetch a; gather a"
_STALE = "register; gather; update; gather"
_AGAIN = "register; gather a; release a; gather b"
_NORM = "register; reduce; norm"
_SAVE = "register; save"
_RESHARD = "register; save; load in other; gather in other"
_TRAIN = "register; forward; backward; step=5; gather"
_RESUMED = "register; save; load in other; forward in other; backward in other; step=5 in other; gather in other"
_TWO = [(1,), (1,)]
_ALONE = LayoutSpec("bucket", bucket_numel=1)
_HALF = {"a": {"dtype": "bfloat16"}}

CASES: dict[str, Case] = {
    "negative-owned": case([(1,)], 3, "register; gather"),
    "secondary-unclamped": case([(1,)], 4, _GATHER, layout=LayoutSpec("grouped", 2, group_size=2)),
    "bucket-end-not-carried": case(_TWO, 2, "layout", layout=_ALONE),
    "bucket-hole": case(_TWO, 1, "layout", layout=replace(_ALONE, parameter_alignment=2)),
    "bucket-boundary-fixed": case([(1,)], 3, "layout", layout=LayoutSpec("bucket", bucket_alignment=2)),
    "buffer-padded-not-buckets": case(_TWO, 2, "layout", layout=_ALONE),
    "float-ceil": case([(2**53 + 1,)], 1, "layout"),
    "floor-shards": case([(1,)], 2, "layout"),
    "floor-gradients": case([(1,)], 2, "register; reduce"),
    "empty-is-error": case([(1,)], 2, "register"),
    "empty-raises-alone": case([(1,)], 2, "register"),
    "empty-shard-elsewhere": case([(1,)], 2, "register"),
    "world-size-twice": case([(1,)], 2, "layout"),
    "size-inferred": case([(1,)], 2, _GATHER),
    "compares-owned": case([(1,)], 2, "register"),
    "size-from-gradient": case([(3,)], 2, "register", a={"grad_buffer": "partition"}),
    "viewed-as-gradient": case([(2,)], 2, _GATHER, a={"grad_buffer": "partition"}),
    "shard-not-looked-at": case([(1,)], 2, "register", differs=Divergence(1, "shard_numel", "a", 1)),
    "shard-length-from-own": case([(1,)], 1, "register", differs=Divergence(0, "shard_numel", "a", 1)),
    "dtype-not-compared": case([(1,)], 2, "register", differs=Divergence(1, "dtype", "a", "int32")),
    "compares-shard-length": case([(7,)], 2, "register", differs=Divergence(1, "shape", "a", (8,))),
    "compares-numel": case([(2, 3)], 2, "register", differs=Divergence(1, "shape", "a", (3, 2))),
    "order-ignored": case([(1,), (1,)], 2, "register", differs=Divergence(1, "order")),
    "ids-ignored": case([(1,)], 2, "register", differs=Divergence(1, "id", "a", "elsewhere")),
    "extra-ignored": case([(1,)], 2, "register", differs=Divergence(1, "extra", value=(1,))),
    "one-collective-each": case([(1,)], 2, "register", differs=Divergence(1, "extra", value=(1,))),
    "raises-alone": case([(1,)], 2, "register", differs=Divergence(1, "refuses")),
    "checks-alone": case([(1,)], 2, "register", differs=Divergence(1, "shard_numel", "a", 1)),
    "refused-by-first": case([(1,)], 2, "register", differs=Divergence(1, "dtype", "a", "int32")),
    "frozen-has-no-entry": case([(1,)], 1, "register", a={"frozen": True}),
    "gradient-expected": case([(1,)], 1, "register", a={"grad_buffer": "absent"}),
    "logged-not-raised": case([(1,)], 2, "register", differs=Divergence(1, "dtype", "a", "int32")),
    "buffer-of-n": case([(1,)], 2, _GATHER),
    "tail-pushed-back": case([(5,)], 2, _GATHER),
    "fused-stride": case([(5,), (7,)], 2, "register; prefetch; wait"),
    "memory-order": case([(2,)], 2, _GATHER, a={"strides": (2,)}),
    "strided-shard": case([(2,)], 1, _GATHER, a={"strides": (2,)}),
    "strided-send": case([(2,)], 1, _GATHER, a={"strides": (2,)}),
    "stale-by-count": case([(1,), (1,)], 1, _AGAIN, **_HALF),
    "stale-dtype-kept": case([(1,), (1,)], 1, _AGAIN, **_HALF),
    "insert-if-absent": case([(1,)], 1, _STALE),
    "valid-at-launch": case([(1,)], 2, _ASYNC, late=[(1, 1)]),
    "available-at-launch": case([(1,)], 2, "register; prefetch a", late=[(0, 1)]),
    "waits-for-nothing": case([(1,)], 2, "register; prefetch a; wait a", late=[(1, 1)]),
    "gather-returns-early": case([(1,)], 2, _GATHER, late=[(1, 1)]),
    "last-handle-only": case([(1,), (1,)], 1, "register; prefetch; wait"),
    "first-handle-only": case([(1,), (1,)], 1, "register; prefetch; wait"),
    "view-kept": case([(1,)], 1, "register; gather; release"),
    "slot-reset": case([(1,), (1,)], 1, "register; prefetch a; prefetch b; wait"),
    "slot-not-emptied": case([(1,), (1,), (1,)], 1, "register; prefetch; wait"),
    "secondary-stale": case([(1,)], 1, _STALE),
    "secondary-stale-after-load": case([(1,)], 1, "register; gather; save; update; gather; load; gather"),
    "update-keeps-valid": case([(1,)], 1, _STALE),
    "secondary-not-refreshed": case([(1,)], 2, _STALE, layout=LayoutSpec("grouped", group_size=1)),
    "zero-divides": case([(1, 0)], 1, _GATHER),
    "zero-crashes": case([(0,)], 1, _GATHER),
    "empty-shape-lost": case([(1, 0)], 1, _GATHER),
    "scalar-shape-lost": case([()], 1, _GATHER),
    "rotated-shard": case([(2,)], 1, _GATHER),
    "ranks-permuted": case([(1,)], 2, _GATHER),
    "even-count": case([(1,)], 1, _GATHER),
    "aligned-send": case([(1,)], 1, _GATHER, a={"storage_offset": 1}),
    "offset-32": case([(2**33,)], 2, "layout"),
    "count-32": case([(2**32,)], 2, "layout"),
    "two-formulas": case([(2,)], 2, _GATHER, alignment=2),
    "packed-by-numel": case([(1,), (1,)], 2, "register; reduce"),
    "packed-and-cut-apart": case([(1,), (1,)], 2, "register; reduce"),
    "padding-left": case([(1,)], 2, "register; reduce"),
    "padding-in-norm": case([(1,)], 2, _NORM),
    "norm-by-max": case([(1,)], 2, _NORM),
    "norm-by-mean": case([(1,)], 2, _NORM),
    "tied-twice": case([(1,), (1,)], 2, "register; reduce", b={"tied_to": "a"}),
    "oversize-lost": case([(65,)], 1, "register; reduce"),
    "oversize-local": case([(9,)], 2, "register; reduce"),
    "count-not-reset": case([(1,)], 1, "register; reduce; reduce"),
    "fill-not-reset": case([(1,)], 1, "register; reduce; reduce"),
    "gradients-add-up": case([(1,)], 1, "register; reduce; reduce"),
    "result-in-parameter-dtype": case([(1,)], 1, "register; reduce", a={"dtype": "bfloat16", "grad_dtype": "float32"}),
    "result-in-comm-dtype": case([(1,)], 1, "register; reduce", a={"comm_dtype": "bfloat16"}),
    "first-micro-step-only": case([(1,)], 1, "register; accumulate; reduce"),
    "last-micro-step-only": case([(1,)], 1, "register; accumulate; reduce"),
    "middle-micro-step-lost": case([(1,)], 1, "register; accumulate; accumulate; reduce"),
    "reduced-in-place": case([(2,)], 2, "register; reduce"),
    "accumulated-in-place": case([(1,)], 1, "register; accumulate; accumulate; reduce"),
    "sum-for-mean": case([(1,)], 2, "register; reduce: mean"),
    "mean-for-sum": case([(1,)], 2, "register; reduce"),
    "own-rank-only": case([(1,)], 2, "register; reduce"),
    "padding-kept": case([(1,)], 2, _SAVE),
    "stripped-by-rule": case([(1,)], 2, _SAVE),
    "trailing-zeros-stripped": case([(8,)], 1, _SAVE, a={"dtype": "bool"}),
    "last-shard-takes-all": case([(1,)], 3, _SAVE),
    "last-of-group-takes-all": case([(1,)], 3, _SAVE, layout=LayoutSpec("grouped", group_size=3)),
    "world-rank-for-group-rank": case(
        [(1,)], 2, "register; save; load; gather", layout=LayoutSpec("grouped", group_size=1)
    ),
    "new-ranks-missing": case([(2,)], 1, _RESHARD, other=2),
    "new-ranks-raise": case([(2,)], 1, _RESHARD, other=2),
    "old-shard-length": case([(2,)], 1, _RESHARD, other=2),
    "scalar-sliced": case([()], 1, "register; save; load; gather"),
    "scalar-saved-as-vector": case([()], 1, _SAVE),
    "step-count-sliced": case([(1,)], 2, "register; update; save; load"),
    "padded-index": case([(1,), (1,)], 2, _SAVE),
    "compact-offsets": case(_TWO, 2, "register; save; load; gather", layout=_ALONE),
    "other-key": case([(1,)], 1, "register; gather; release"),
    "padded-rows": case([(1, 1)], 2, _SAVE),
    "last-shard-not-stepped": case([(2,)], 2, _TRAIN),
    "clips-by-local-norm": case([(2,)], 2, "register; forward; backward; clip=2; step=5; gather"),
    "step-forgets-clip": case([(1,)], 1, "register; forward; backward; clip=2; step=5; gather"),
    "gradients-averaged": case([(1,)], 2, "register; forward; backward"),
    "loss-of-one-rank": case([(1,)], 2, "register; forward"),
    "no-gradient-without-shard": case([(1,)], 2, "register; forward; backward; step=5; gather"),
    "accumulated-dropped": case([(1,)], 1, "register; accumulate; forward; backward; norm"),
    "tied-stepped-twice": case([(1,), (1,)], 1, _TRAIN, b={"tied_to": "a"}),
    "step-keeps-valid": case([(1,)], 1, _TRAIN),
    "forward-on-first-weights": case([(1,)], 1, "register; forward; update; forward"),
    "master-not-loaded": case([(1,)], 1, _RESUMED),
    "padding-rank-starts-over": case([(1,)], 2, "register; save; load"),
}

_EVERYTHING = (
    "register; layout; gather; prefetch a; wait a; update; gather b; use; accumulate a; reduce; norm; reduce: mean; "
    "norm; save; load; gather; load in other; gather in other; release in other"
)
_PADDED = [(5, 3), (7, 1), (2, 2)]
# No fault's own: programs of everything for layouts that fault models say little of.
SOUND: dict[str, Case] = {
    "units": case(_PADDED, 4, _EVERYTHING, other=3, layout=LayoutSpec("ragged", units=(3, 1))),
    "mesh": case(_PADDED, 4, _EVERYTHING, other=2, layout=LayoutSpec("two_dimensional", 2, 1, mesh=(2, 2))),
    "rows of a mesh": case(_PADDED, 4, _EVERYTHING, other=4, layout=LayoutSpec("two_dimensional", mesh=(1, 4))),
    "groups by rows": case(_PADDED, 4, _EVERYTHING, other=2, layout=LayoutSpec("grouped_chunk", group_size=2)),
    "groups by columns": case(
        _PADDED, 4, _EVERYTHING, other=2, layout=LayoutSpec("grouped_chunk", dim=1, group_size=2)
    ),
    "groups": case(_PADDED, 4, _EVERYTHING, other=2, layout=LayoutSpec("grouped", 2, group_size=2)),
    "buckets": case(_PADDED, 4, _EVERYTHING, other=3, layout=LayoutSpec("bucket", 1, 0, 8, 2, 3)),
    "one bucket": case(_PADDED, 3, _EVERYTHING, other=2, layout=LayoutSpec("bucket", 2), b={"dtype": "float64"}),
}
