"""What one rank sends is what the others receive from it."""

from __future__ import annotations

from collections.abc import Iterator

from invariants.evidence import Buffer, Call
from invariants.law import Law, Violation
from invariants.views import Together, together

_TIMES = {"all_gather": "recv", "reduce_scatter": "send"}


def check(item: Together) -> Iterator[Violation]:
    """Call by call: every rank's one part has the count and dtype that every other rank has room for."""
    for number, calls in enumerate(zip(*item.calls, strict=False)):
        if len({call.op for call in calls}) > 1:
            return  # from here on the calls are not partners: another law speaks of that
        for rank, observed, expected in _mismatches(item.ranks, calls):
            where = f"{calls[0].op} number {number} of {item.kind}"
            yield Violation(LAW.slug, f"{observed} in {where}", expected, rank, step=item.index)


def _mismatches(ranks: tuple[int, ...], calls: tuple[Call, ...]) -> Iterator[tuple[int, str, str]]:
    """One for each rank whose parts do not fit the calls of some other rank. Calls of one form are looked at once."""
    forms = {_form(call): (rank, call) for rank, call in zip(reversed(ranks), reversed(calls), strict=True)}
    for position, call in enumerate(calls):
        for other_rank, other in forms.values():
            wrong = next(_unfit(call, other, position, len(calls)), None)
            if wrong is not None:
                part, room = wrong
                yield ranks[position], f"a part of {part}", f"{room}, as on rank {other_rank}"
                break


def _form(call: Call) -> tuple[tuple[tuple[int, str], ...], ...]:
    return tuple([tuple([(buffer.numel, buffer.dtype) for buffer in side]) for side in (call.send, call.recv)])


def _unfit(call: Call, other: Call, position: int, world_size: int) -> Iterator[tuple[str, str]]:
    """Parts of `call` beside the room that `other` has for them, where the two differ."""
    for number, part in enumerate(_parts(call)):
        room = _room(other, number, position, world_size)
        if room is not None and room != (part.numel * world_size, part.dtype):
            yield f"{part.numel} {part.dtype}", f"{room[0] / world_size:g} {room[1]}"


def _parts(call: Call) -> tuple[Buffer, ...]:
    """What is this rank's own: what it sends to all, or its share of what is scattered."""
    return call.recv if call.op == "reduce_scatter" else call.send


def _room(call: Call, number: int, position: int, world_size: int) -> tuple[int, str] | None:
    """World size times the elements, and the dtype, that `call` has for part `number` of the rank at `position`."""
    parts = _parts(call)
    whole = getattr(call, _TIMES.get(call.op, "send"))
    if number >= len(parts):
        return 0, "nothing"
    if call.op not in _TIMES:
        return parts[number].numel * world_size, parts[number].dtype
    if len(whole) == len(parts):  # one buffer for all ranks
        return whole[number].numel, whole[number].dtype
    if len(parts) == 1 and len(whole) == world_size:  # a list with one buffer a rank
        return whole[position].numel * world_size, whole[position].dtype
    return None


LAW: Law[Together] = Law(
    slug="equal-counts-and-dtypes",
    family="collectives",
    sentence="In every collective, what a rank contributes has the count and dtype that the other ranks expect of it.",
    why="Backends do not check this between ranks: a wrong count crashes the process or reads beyond the buffer, a "
    "wrong dtype delivers garbage.",
    rows=("R3", "R4", "G16"),
    needs=(),
    over=together,
    check=check,
)
