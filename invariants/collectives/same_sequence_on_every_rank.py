"""All ranks issue the same collectives in the same order."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.views import Together, together


def check(item: Together) -> Iterator[Violation]:
    """Each rank's list of collectives is that of the first."""
    first, *others = [[call.op for call in calls] for calls in item.calls]
    for rank, ops in zip(item.ranks[1:], others, strict=True):
        if ops != first:
            expected = f"{_words(first)}, as on rank {item.ranks[0]}"
            yield Violation(LAW.slug, f"{_words(ops)} in {item.kind}", expected, rank, step=item.index)


def _words(ops: list[str]) -> str:
    shown = ", ".join(ops[:6]) or "no collective"
    return f"{shown}, … ({len(ops)} in all)" if len(ops) > 6 else shown


LAW: Law[Together] = Law(
    slug="same-sequence-on-every-rank",
    family="collectives",
    sentence="In every step, all ranks of a group issue the same collectives in the same order.",
    why="Collectives are matched by order alone. One more on some rank pairs each later one with the wrong partner: "
    "values are mixed up, or the program hangs at its very end.",
    rows=("R5", "R6"),
    needs=(),
    over=together,
    check=check,
)
