"""Cases made of a public model's parameter shapes, at each world size and layout.

At true size the implementation's own layout is judged, where it offers one; data is moved at a reduced size that is cut
with the same remainders.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shardproof.case import Case, Group, LayoutSpec, Operation, Parameter
from shardproof.layouts import fits, least_dims
from shardproof.model_shapes import ModelParameter, ShapeSet, reduced

if TYPE_CHECKING:
    from shardproof.engine import Description

_SMALL_BUCKET = 64
_MOVES = ("register", "gather", "update", "gather", "release", "gather")


def shape_cases(shapes: ShapeSet, description: Description, world_sizes: Sequence[int]) -> Iterator[Case]:
    """First every layout at true size, then the same parameters small, with data."""
    offers = {*description.offers, "register"}
    for world_size in world_sizes:
        for spec in _layouts(description, world_size):
            fitting = [p for p in shapes.parameters if len(p.shape) >= least_dims(spec)]
            if "layout" in offers:
                yield _case(fitting, spec, world_size, ("layout",), small=False)
            small = spec if description.specs else _small(spec)
            yield _case(fitting, small, world_size, [kind for kind in _MOVES if kind in offers], small=True)


def _small(spec: LayoutSpec) -> LayoutSpec:
    """The layout of small parameters: a cap that they reach."""
    return replace(spec, bucket_numel=_SMALL_BUCKET) if spec.kind == "bucket" else spec


def _case(
    parameters: Sequence[ModelParameter], spec: LayoutSpec, world_size: int, program: Sequence[str], *, small: bool
) -> Case:
    return Case(
        groups=(Group("main", tuple(range(world_size))),),
        parameters=tuple(
            Parameter(p.name, reduced(p.shape, world_size, spec) if small else p.shape, p.dtype) for p in parameters
        ),
        program=tuple(Operation(kind) for kind in program),  # type: ignore[arg-type]  # kinds of operations
        layout=spec,
    )


def _layouts(description: Description, world_size: int) -> Iterator[LayoutSpec]:
    """The layouts that training systems use for real parameters: the smallest and the largest alignment, each dim.

    Buckets are Megatron-Core's defaults; half of the ranks hold a replica, or are tensor ranks, where there are halves.
    """
    if description.specs:
        yield from (spec for spec in description.specs if fits(spec, world_size))
        return
    alignments = sorted({min(description.alignments), max(description.alignments)})
    half = world_size // 2 if world_size % 2 == 0 else world_size
    specs = [
        *(LayoutSpec(alignment=alignment) for alignment in alignments),
        *(LayoutSpec("chunk", dim=dim) for dim in (0, 1)),
        LayoutSpec("bucket", alignments[0], 0, 40_000_000, 64, 128),
        LayoutSpec("ragged", units=(128,)),
        LayoutSpec("grouped", alignments[0], group_size=half),
        *(LayoutSpec("grouped_chunk", 1, dim, group_size=half) for dim in (0, 1)),
        *(LayoutSpec("two_dimensional", alignments[0], dim, mesh=(world_size // half, half)) for dim in (0, 1)),
    ]
    yield from (spec for spec in specs if spec.kind in description.layouts)
