"""What a case exercises, as names that a run counts: a search that never made padding has shown nothing about it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from shardproof.case import Case, Parameter
from shardproof.layouts import MODELLED, layout_of

if TYPE_CHECKING:
    from shardproof.engine import Description


def features(case: Case) -> frozenset[str]:
    """The names of everything that the case exercises."""
    return frozenset(name for name, shows in FEATURES.items() if shows(case))


def required(description: Description, world_sizes: Collection[int], pool_size: int) -> frozenset[str]:
    """The features without which a run says nothing, for this implementation at these world sizes."""
    offers, several = set(description.offers), max(world_sizes) > 1
    flat = "flat_padded" in description.layouts
    trained = {"forward", "backward", "step"} <= offers
    resharded = {"save", "load"} <= offers and len(set(world_sizes)) > 1 and not description.needs_default_group
    wanted = {
        "padding": several,
        "padding-only-rank": several,
        "numel-below-world-size": several,
        "scalar": flat,
        "empty-parameter": True,
        "several-parameters": True,
        "several-buckets": "bucket" in description.layouts and "bucket" in MODELLED,
        "non-contiguous": True,
        "storage-offset": True,
        "mixed-dtypes": True,
        "chunk": "chunk" in description.layouts,
        "aligned": flat and max(description.alignments) > 1,
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
    """Some gather buffer is longer than its parameter."""
    layouts = (layout_of(case.layout, parameter.shape, case.world_size) for parameter in case.parameters)
    return any(layout.padded_numel > layout.numel for layout in layouts)


def _padding_only_rank(case: Case) -> bool:
    """Some rank owns nothing of a parameter that is not empty."""
    layouts = (layout_of(case.layout, parameter.shape, case.world_size) for parameter in case.parameters)
    return any(layout.numel and not layout.owned(layout.world_size - 1) for layout in layouts)


def _training_resumed(case: Case) -> bool:
    """A step, a load at another world size, and another step there."""
    steps = [operation.group for operation in case.program if operation.kind == "step"]
    return len(set(steps)) > 1


def _several_buckets(case: Case) -> bool:
    capacity = case.layout.bucket_numel
    return capacity is not None and sum(parameter.numel for parameter in case.parameters) > capacity


FEATURES: Mapping[str, Callable[[Case], bool]] = {
    "padding": _padding,
    "padding-only-rank": _padding_only_rank,
    "numel-below-world-size": lambda case: any(0 < p.numel < case.world_size for p in case.parameters),
    "scalar": _any(lambda p: not p.shape),
    "empty-parameter": _any(lambda p: not p.numel),
    "several-parameters": lambda case: len(case.parameters) > 1,
    "several-buckets": _several_buckets,
    "non-contiguous": _any(lambda p: p.strides is not None),
    "storage-offset": _any(lambda p: p.storage_offset > 0),
    "mixed-dtypes": lambda case: len({p.dtype for p in case.parameters}) > 1,
    "frozen": _any(lambda p: p.frozen),
    "tied": _any(lambda p: p.tied_to is not None),
    "partition-grad": _any(lambda p: p.grad_buffer == "partition"),
    "absent-grad": _any(lambda p: p.grad_buffer == "absent"),
    "chunk": lambda case: case.layout.kind == "chunk",
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
