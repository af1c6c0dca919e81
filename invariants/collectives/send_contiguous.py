"""What is sent lies in one piece."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.law import Law, Violation
from invariants.views import Sent, breach, sends


def check(item: Sent) -> Iterator[Violation]:
    """The send buffer is contiguous."""
    if not item.send.contiguous:
        observed = f"a strided send buffer of {item.send.numel} {item.send.dtype} in {item.op}"
        yield breach(LAW, item, observed, "a contiguous one")


LAW: Law[Sent] = Law(
    slug="send-contiguous",
    family="collectives",
    sentence="Every buffer that a collective sends is contiguous.",
    why="A backend sends the bytes behind the first element. Of a strided view those are other elements, and no error "
    "says so.",
    rows=("G3",),
    needs=(),
    over=sends,
    check=check,
)
