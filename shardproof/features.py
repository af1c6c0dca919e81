"""What a case exercises, as names that a run counts: a search that never made padding has shown nothing about it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from math import prod
from typing import TYPE_CHECKING

from reference import Bucketed, InBucket
from shardproof.case import Case, Parameter
from shardproof.layouts import CUTS_A_DIM, REPLICATES, layouts_of

if TYPE_CHECKING:
    from shardproof.engine import Description


def features(case: Case) -> frozenset[str]:
    """The names of everything that the case exercises."""
    return frozenset(name for name, shows in FEATURES.items() if shows(case))


def required(description: Description, world_sizes: Collection[int], pool_size: int) -> frozenset[str]:
    """The features without which a run says nothing, for this implementation at these world sizes."""
    offers, several = set(description.offers), max(world_sizes) > 1
    kinds = set(description.layouts)
    flat = kinds - set(CUTS_A_DIM)
    aligned = kinds - {"chunk", "grouped_chunk", "ragged"}
    composite = any(size % low == 0 for size in world_sizes for low in range(2, size))
    trained = {"forward", "backward", "step"} <= offers
    resharded = {"save", "load"} <= offers and len(set(world_sizes)) > 1 and not description.needs_default_group
    wanted = {
        "padding": several,
        "padding-only-rank": several,
        "numel-below-world-size": several,
        "scalar": bool(flat),
        "empty-parameter": True,
        "several-parameters": True,
        "several-buckets": "bucket" in kinds,
        "padding-before-last-bucket": "bucket" in kinds,
        "non-contiguous": True,
        "storage-offset": True,
        "mixed-dtypes": True,
        "chunk": "chunk" in kinds,
        "bucket": "bucket" in kinds,
        "ragged": "ragged" in kinds,
        "replicas": several and not kinds.isdisjoint(REPLICATES),
        "mesh": composite and "two_dimensional" in kinds,
        "aligned": bool(aligned) and max(description.alignments) > 1,
        "sub-group": min(world_sizes) < pool_size and not description.needs_default_group,
        "world-size-1": 1 in world_sizes,
        "divergent-ranks": several and "register" in offers,
        "asynchronous": {"prefetch", "wait"} <= offers,
        "update": "update" in offers,
        "reduction": "reduce" in offers,
        "reshard": resharded,
        "training": trained,
        "clipping": trained and "clip" in offers,
        "training-resumed": trained and resharded,
    }
    return frozenset(name for name, needed in wanted.items() if needed)


def _any(shows: Callable[[Parameter], bool]) -> Callable[[Case], bool]:
    return lambda case: any(shows(parameter) for parameter in case.parameters)


def _performs(*kinds: str) -> Callable[[Case], bool]:
    return lambda case: any(operation.kind in kinds for operation in case.program)


def _padding(case: Case) -> bool:
    """Some gather buffer is longer than what lies in it."""
    if case.layout.kind == "bucket":
        return any(_gaps(buffer)[0] for buffer in _buffers(case))
    layouts = layouts_of(case.layout, case.parameters, case.world_size).values()
    return any(layout.padded_numel > layout.numel for layout in layouts)


def _padding_only_rank(case: Case) -> bool:
    """Some rank owns nothing of a parameter that is not empty."""
    layouts = layouts_of(case.layout, case.parameters, case.world_size).values()
    return any(layout.numel and not layout.owned(layout.world_size - 1) for layout in layouts)


def _buffers(case: Case) -> frozenset[Bucketed]:
    if case.layout.kind != "bucket":
        return frozenset()
    layouts = layouts_of(case.layout, case.parameters, case.world_size).values()
    return frozenset(layout.buffer for layout in layouts if isinstance(layout, InBucket))


def _gaps(buffer: Bucketed) -> tuple[bool, bool]:
    """Whether any bucket has padding, and whether one before the last has."""
    numels = [0] * (len(buffer.edges) - 1)
    for shape, number in zip(buffer.shapes, buffer.numbers, strict=True):
        numels[number] += prod(shape)
    padded = [high - low > numel for low, high, numel in zip(buffer.edges, buffer.edges[1:], numels, strict=False)]
    return any(padded), any(padded[:-1])


def _training_resumed(case: Case) -> bool:
    """A step, a load at another world size, and another step there."""
    steps = [operation.group for operation in case.program if operation.kind == "step"]
    return len(set(steps)) > 1


def _several_buckets(case: Case) -> bool:
    return any(len(buffer.edges) > 2 for buffer in _buffers(case))


def _padding_before_last_bucket(case: Case) -> bool:
    return any(_gaps(buffer)[1] for buffer in _buffers(case))


FEATURES: Mapping[str, Callable[[Case], bool]] = {
    "padding": _padding,
    "padding-only-rank": _padding_only_rank,
    "numel-below-world-size": lambda case: any(0 < p.numel < case.world_size for p in case.parameters),
    "scalar": _any(lambda p: not p.shape),
    "empty-parameter": _any(lambda p: not p.numel),
    "several-parameters": lambda case: len(case.parameters) > 1,
    "several-buckets": _several_buckets,
    "padding-before-last-bucket": _padding_before_last_bucket,
    "non-contiguous": _any(lambda p: p.strides is not None),
    "storage-offset": _any(lambda p: p.storage_offset > 0),
    "mixed-dtypes": lambda case: len({p.dtype for p in case.parameters}) > 1,
    "frozen": _any(lambda p: p.frozen),
    "tied": _any(lambda p: p.tied_to is not None),
    "partition-grad": _any(lambda p: p.grad_buffer == "partition"),
    "absent-grad": _any(lambda p: p.grad_buffer == "absent"),
    "chunk": lambda case: case.layout.kind == "chunk",
    "bucket": lambda case: case.layout.kind == "bucket",
    "ragged": lambda case: case.layout.kind == "ragged",
    "replicas": lambda case: case.layout.kind in REPLICATES and case.layout.group_size != case.world_size,
    "mesh": lambda case: case.layout.mesh is not None and min(case.layout.mesh) > 1,
    "aligned": lambda case: case.layout.alignment > 1,
    "sub-group": lambda case: case.main.ranks[0] > 0,
    "world-size-1": lambda case: case.world_size == 1,
    "divergent-ranks": lambda case: bool(case.divergences),
    "delayed-rank": lambda case: bool(case.delays),
    "asynchronous": _performs("prefetch"),
    "update": _performs("update"),
    "release": _performs("release"),
    "held-result": _performs("use"),
    "reduction": _performs("reduce"),
    "training": _performs("backward"),
    "clipping": _performs("clip"),
    "training-resumed": _training_resumed,
    "reshard": lambda case: any(o.kind == "load" and o.group != "main" for o in case.program),
}
