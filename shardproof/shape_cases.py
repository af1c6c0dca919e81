"""Cases made of a public model's parameter shapes, at each world size and layout.

At true size the implementation's own layout is judged, where it offers one; data is moved at a reduced size that is cut
with the same remainders.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from shardproof.case import Case, Group, LayoutSpec, Operation, Parameter
from shardproof.model_shapes import ModelParameter, ShapeSet, reduced

if TYPE_CHECKING:
    from shardproof.engine import Description

_MOVES = ("register", "gather", "update", "gather", "release", "gather")


def shape_cases(shapes: ShapeSet, description: Description, world_sizes: Sequence[int]) -> Iterator[Case]:
    """First every layout at true size, then the same parameters small, with data."""
    specs = list(_layouts(description))
    offers = {*description.offers, "register"}
    for world_size in world_sizes:
        for spec in specs:
            fitting = [p for p in shapes.parameters if spec.kind != "chunk" or len(p.shape) > spec.dim]
            if "layout" in offers:
                yield _case(fitting, spec, world_size, ("layout",), small=False)
            yield _case(fitting, spec, world_size, [kind for kind in _MOVES if kind in offers], small=True)


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


def _layouts(description: Description) -> Iterator[LayoutSpec]:
    """The layouts that training systems use for real parameters: the smallest and the largest alignment, each dim."""
    if "flat_padded" in description.layouts:
        for alignment in sorted({min(description.alignments), max(description.alignments)}):
            yield LayoutSpec(alignment=alignment)
    if "chunk" in description.layouts:
        yield from (LayoutSpec(kind="chunk", dim=dim) for dim in (0, 1))
