"""The model's layout for a case's layout spec."""

from __future__ import annotations

from functools import lru_cache

from reference import Chunk, FlatPadded, Layout
from shardproof.case import LayoutSpec
from shardproof.errors import UsageError

MODELLED = ("flat_padded", "chunk")


@lru_cache(maxsize=4096)
def layout_of(spec: LayoutSpec, shape: tuple[int, ...], world_size: int) -> Layout:
    """The index map of one parameter of this shape. Raises UsageError for a kind that has no model."""
    if spec.kind == "flat_padded":
        return FlatPadded(shape, world_size, spec.alignment)
    if spec.kind == "chunk":
        return Chunk(shape, world_size, spec.dim)
    raise UsageError(
        "this layout has no model", where="layout.kind", observed=spec.kind, expected=" or ".join(MODELLED)
    )
