"""The layout remembers the parameter's own shape."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.views import Claims, claims_owing


def check(item: Claims) -> Iterator[Violation]:
    """Every rank's logical shape is the parameter's."""
    for rank, claim in item.ranked:
        if claim.logical_shape != item.subject.shape:
            yield item.breach(LAW, rank, f"logical shape {claim.logical_shape}", str(item.subject.shape))


LAW: Law[Claims] = Law(
    slug="logical-size-carried",
    family="layout",
    sentence="Every rank knows the parameter's logical shape; it is carried along, never inferred from what is stored.",
    why="From a padded length, or from a local one times the world size, the true size cannot be told. Whoever infers "
    "it exports padding, or multiplies a dimension twice.",
    rows=("L8",),
    needs=("layout",),
    over=claims_owing("logical-size-carried"),
    check=check,
)
