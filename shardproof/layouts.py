"""The model's layouts for a case, and what an implementation is told of them beside a shape.

Most layouts cut each parameter for itself. In buckets, parameters lie in one buffer a dtype, in the case's order, and
where one lies depends on those before it; a tied parameter lies where the one does that it is tied to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import Any, get_args

from reference import Bucketed, Chunk, FlatPadded, Grouped, InBucket, Layout, Ragged, TwoDimensional, whole_units
from shardproof.case import LayoutKind, LayoutSpec, Parameter
from shardproof.errors import UsageError

KINDS: tuple[LayoutKind, ...] = get_args(LayoutKind)
# The fields of a LayoutSpec that a kind uses; those in the second table it cannot do without.
USES: Mapping[LayoutKind, frozenset[str]] = {
    "flat_padded": frozenset({"alignment"}),
    "chunk": frozenset({"dim"}),
    "bucket": frozenset({"alignment", "bucket_numel", "parameter_alignment", "bucket_alignment", "bucket_least"}),
    "ragged": frozenset({"units"}),
    "grouped": frozenset({"alignment", "group_size"}),
    "grouped_chunk": frozenset({"dim", "group_size"}),
    "two_dimensional": frozenset({"alignment", "dim", "mesh"}),
}
NEEDS: Mapping[LayoutKind, str] = {
    "ragged": "units",
    "grouped": "group_size",
    "grouped_chunk": "group_size",
    "two_dimensional": "mesh",
}
FIELDS = tuple(name for name in LayoutSpec.__slots__ if name != "kind")
# Kinds that cut a dim of the parameter's shape.
CUTS_A_DIM: tuple[LayoutKind, ...] = ("chunk", "grouped_chunk", "two_dimensional")
# Kinds in which groups of ranks hold the same.
REPLICATES: tuple[LayoutKind, ...] = ("grouped", "grouped_chunk")

_PLAIN = LayoutSpec()
_PLAINEST: Mapping[LayoutKind, Mapping[str, Any]] = {
    "ragged": {"units": (1,)},
    "grouped": {"group_size": 1},
    "grouped_chunk": {"group_size": 1},
    "two_dimensional": {"mesh": (1, 1)},
}


@dataclass(frozen=True, slots=True)
class Cut:
    """How one parameter is cut: the model's layout, and what `shard` and `layout` are told of it by name."""

    layout: Layout
    options: Mapping[str, Any]


def plainest(kind: LayoutKind) -> LayoutSpec:
    """The spec of that kind with the fewest things said, for one rank. Raises UsageError for a kind there is not."""
    if kind not in KINDS:
        raise _unknown(kind)
    return LayoutSpec(kind, **_PLAINEST.get(kind, {}))


def least_dims(spec: LayoutSpec) -> int:
    """How many dims a parameter must have to be cut like this."""
    return spec.dim + 1 if spec.kind in CUTS_A_DIM else 0


def fits(spec: LayoutSpec, world_size: int) -> bool:
    """Whether so many ranks can be grouped as the spec says: in whole groups, in whole rows of tensor ranks."""
    size = spec.group_size if spec.kind in REPLICATES else spec.mesh[1] if spec.mesh else 1
    return world_size % (size or 1) == 0


def at(spec: LayoutSpec, world_size: int) -> LayoutSpec:
    """The spec at another world size: a mesh keeps its tensor ranks and has other data ranks."""
    return replace(spec, mesh=(world_size // spec.mesh[1], spec.mesh[1])) if spec.mesh else spec


def layout_of(spec: LayoutSpec, shape: tuple[int, ...], world_size: int) -> Layout:
    """The index map of a parameter of this shape that is alone. Raises UsageError for a kind that there is not."""
    return _alone(spec, shape, world_size).layout


def layouts_of(spec: LayoutSpec, parameters: Sequence[Parameter], world_size: int) -> dict[str, Layout]:
    """The index map of every parameter, by id, where these are all that there are."""
    return {id: cut.layout for id, cut in cuts_of(spec, parameters, world_size).items()}


def cuts_of(spec: LayoutSpec, parameters: Sequence[Parameter], world_size: int) -> dict[str, Cut]:
    """How every parameter is cut, by id, where these are all that there are. Raises UsageError as `layout_of` does."""
    if spec.kind != "bucket":
        return {p.id: _alone(spec, p.shape, world_size) for p in parameters}
    return dict(_in_buckets(spec, parameters, world_size))


def _in_buckets(spec: LayoutSpec, parameters: Sequence[Parameter], world_size: int) -> Iterator[tuple[str, Cut]]:
    own = {p.id: p for p in parameters if p.tied_to is None}
    # A parameter whose root is missing on this rank stands for itself.
    own |= {p.id: p for p in parameters if p.tied_to is not None and p.tied_to not in own}
    together: dict[str, list[str]] = {}
    for p in parameters:
        if p.id in own:
            together.setdefault(p.dtype, []).append(p.id)
    for p in parameters:
        root = p.id if p.id in own else p.tied_to or ""
        ids = together[own[root].dtype]
        yield p.id, _placed(spec, tuple(own[id].shape for id in ids), ids.index(root), world_size)


@lru_cache(maxsize=4096)
def _placed(spec: LayoutSpec, shapes: tuple[tuple[int, ...], ...], index: int, world_size: int) -> Cut:
    options = _options(spec, world_size) | {"shapes": shapes, "index": index}
    return Cut(InBucket(_buffer(spec, shapes, world_size), index), options)


@lru_cache(maxsize=1024)
def _buffer(spec: LayoutSpec, shapes: tuple[tuple[int, ...], ...], world_size: int) -> Bucketed:
    rounding = spec.parameter_alignment, spec.bucket_alignment, spec.alignment
    return Bucketed(shapes, world_size, spec.bucket_numel, *rounding, spec.bucket_least)


@lru_cache(maxsize=4096)
def _alone(spec: LayoutSpec, shape: tuple[int, ...], world_size: int) -> Cut:
    if spec.kind == "bucket":
        return _placed(spec, (shape,), 0, world_size)
    return Cut(_layout(at(spec, world_size), shape, world_size), _options(spec, world_size))


def _layout(spec: LayoutSpec, shape: tuple[int, ...], world_size: int) -> Layout:
    if spec.kind == "flat_padded":
        return FlatPadded(shape, world_size, spec.alignment)
    if spec.kind == "chunk":
        return Chunk(shape, world_size, spec.dim)
    if spec.kind == "ragged":
        return Ragged(shape, whole_units(prod(shape), world_size, spec.units))
    if spec.kind == "grouped":
        size = spec.group_size or world_size
        return Grouped(FlatPadded(shape, size, spec.alignment), world_size // size)
    if spec.kind == "grouped_chunk":
        size = spec.group_size or world_size
        return Grouped(Chunk(shape, size, spec.dim), world_size // size)
    if spec.kind == "two_dimensional":
        return TwoDimensional(shape, spec.mesh or (world_size, 1), spec.dim, alignment=spec.alignment)
    raise _unknown(spec.kind)


def _options(spec: LayoutSpec, world_size: int) -> dict[str, Any]:
    """Keyword arguments that say more than the shape: only those that differ from the plain case."""
    here = at(spec, world_size)
    return {name: getattr(here, name) for name in FIELDS if getattr(here, name) != getattr(_PLAIN, name)}


def _unknown(kind: str) -> UsageError:
    return UsageError("this layout has no model", where="layout.kind", observed=kind, expected=" or ".join(KINDS))
