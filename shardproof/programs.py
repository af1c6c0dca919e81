"""Programs to draw from: short, self-contained sequences of operations that make sense after a registration.

Each is written once with targets ("all", "first", "last", "reversed", "rest") in place of parameters, and is there
only for implementations that offer its operations.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from shardproof.case import Operation, OperationKind
from shardproof.contents import TRAINING

Target = Literal["all", "first", "last", "reversed", "rest"]


@dataclass(frozen=True, slots=True)
class Move:
    """One operation of a segment. `elsewhere`: in the group that the parameters are not in. `bound`: of a clip."""

    kind: OperationKind
    target: Target = "all"
    reduction: Literal["sum", "mean"] = "sum"
    elsewhere: bool = False
    bound: int = 0


Segment = tuple[Move, ...]

# "T" stands for each target of the row. The first rows are what a failing program shrinks to.
_ROWS: tuple[tuple[str, tuple[Target, ...]], ...] = (
    ("gather T", ("all", "first", "last", "reversed")),
    ("layout T", ("all",)),
    ("update T, gather T", ("all", "first", "last")),
    ("gather T, gather T", ("all", "last")),
    ("gather T, use T", ("all", "first")),
    ("gather T, gather all, use T", ("all", "first")),
    ("gather T, update T, gather T, use T", ("all", "first", "last")),
    ("gather T, invalidate T, gather T", ("all", "first")),
    ("gather T, invalidate T, gather T, use T", ("all",)),
    ("gather T, release T", ("all", "first", "last")),
    ("gather T, release T, gather T", ("all", "first")),
    ("gather T, release T, gather all, use T", ("all", "first", "last")),
    ("prefetch T, wait T", ("all", "first", "reversed")),
    ("prefetch T, wait all, use all", ("reversed",)),
    ("prefetch first, gather rest, wait first, use all", ("all",)),
    ("prefetch first, prefetch rest, wait rest, wait first", ("all",)),
    ("prefetch first, prefetch rest, wait T", ("all", "reversed")),
    ("prefetch T, wait T, release T", ("all", "first")),
    ("update T, prefetch T, wait T", ("all", "last")),
    ("reduce T", ("all", "first", "reversed")),
    ("mean T", ("all", "last")),
    ("accumulate T", ("all", "first")),
    ("accumulate T, reduce T", ("all", "first")),
    ("accumulate all, accumulate T, mean all", ("all", "first")),
    ("reduce T, norm", ("all", "first", "last")),
    ("reduce T, reduce T, norm", ("all",)),
    ("save, load, gather T", ("all",)),
    ("save, update T, gather T, load, gather all", ("all", "first")),
    ("save, load elsewhere, gather T", ("all", "first", "reversed")),
    ("update T, save, load elsewhere, gather T", ("all",)),
    ("forward, backward, step, gather T", ("all",)),
    ("forward, backward, step, forward, backward, step, gather T", ("all", "first")),
    ("forward, backward, norm, clip, norm, step, gather T", ("all", "first")),
    ("forward, backward, clip far, step, forward, backward, step, gather T", ("all",)),
    ("gather T, forward, backward, step, gather T, release T", ("all",)),
    ("accumulate T, forward, backward, norm, step, gather T", ("all", "first")),
    ("reduce T, step, gather T", ("all",)),
    ("reduce T, clip, norm, step, gather all", ("all",)),
    ("save, forward, backward, step, load, forward, backward, step, gather T", ("all", "last")),
    ("forward, backward, step, save, load elsewhere, gather T, forward, backward, step, gather T", ("all", "last")),
)

# Operations on given gradients happen where the parameters were registered, training wherever they are.
_GIVEN_GRADIENTS = ("accumulate", "reduce")
_ON_GRADIENTS = (*_GIVEN_GRADIENTS, "norm", *TRAINING)
_RATE = 5  # 2^-5 times the gradients of three tied names on eight ranks, 24 w, is less than w: weights stay small
_CLIPS = {"": 2, "far": 1 << 20}


def segments(offers: Collection[str], *, means: bool, elsewhere: bool) -> tuple[Segment, ...]:
    """All segments that an implementation with these operations can be asked for.

    `means`: it can reduce to a mean. `elsewhere`: there is a second group to load in.
    """
    found = []
    for row, targets in _ROWS:
        if ("mean" in row and not means) or ("elsewhere" in row and not elsewhere):
            continue
        segment = [tuple(_move(words, target) for words in row.split(", ")) for target in targets]
        if all(move.kind in offers for move in segment[0]):
            found.extend(segment)
    return tuple(found)


def _move(words: str, target: Target) -> Move:
    kind, _, rest = words.partition(" ")
    if rest == "elsewhere":
        return Move(kind, elsewhere=True)  # type: ignore[arg-type]  # a kind: the rows are checked by every draw's test
    if kind == "clip":
        return Move("clip", bound=_CLIPS[rest])
    chosen: Target = target if rest == "T" else rest or "all"  # type: ignore[assignment]  # a target, likewise
    if kind == "mean":
        return Move("reduce", chosen, "mean")
    return Move(kind, chosen)  # type: ignore[arg-type]  # as above


def program(
    chosen: Sequence[Segment], ids: Sequence[str], with_gradient: Sequence[str], apart: Collection[str] = ()
) -> tuple[Operation, ...]:
    """The operations of these segments, one after another, after a registration.

    Moves that no parameter is left for are dropped. Once the parameters were loaded in another group, moves follow
    there, and segments of given gradients are left out. `apart` are parameters whose given gradients have another
    dtype than those of a backward: what was accumulated for one is reduced before a backward, or there is none.
    """
    operations = [Operation("register")]
    here = "main"
    for segment in chosen:
        gradients = any(move.kind in _GIVEN_GRADIENTS for move in segment)
        needs_any = any(move.kind in _ON_GRADIENTS for move in segment)
        if (gradients and here != "main") or (needs_any and not with_gradient):
            continue
        before = len(operations), here
        for move in segment:
            if move.elsewhere:
                here = "other" if here == "main" else "main"
            acts_on = _targets(move, with_gradient if gradients else ids)
            if acts_on is not None:
                parameters = () if acts_on == tuple(ids) else acts_on
                value = _value(move, len(operations))
                operations.append(Operation(move.kind, parameters, here, value, move.reduction))
        if apart and _adds_two_dtypes(operations, ids, apart):
            del operations[before[0] :]
            here = before[1]
    return tuple(operations)


def _adds_two_dtypes(operations: Sequence[Operation], ids: Sequence[str], apart: Collection[str]) -> bool:
    """Whether a backward meets what was accumulated for one of these parameters and not reduced since."""
    pending: set[str] = set()
    for operation in operations:
        acts_on = set(operation.parameters or ids)
        if operation.kind == "accumulate":
            pending |= acts_on & set(apart)
        elif operation.kind == "reduce":
            pending -= acts_on
        elif operation.kind == "backward" and pending:
            return True
    return False


def _value(move: Move, index: int) -> int:
    """What a training operation is given: each forward another input."""
    return {"forward": index, "step": _RATE, "clip": move.bound}.get(move.kind, 0)


def _targets(move: Move, ids: Sequence[str]) -> tuple[str, ...] | None:
    if move.kind in ("save", "load", "norm", *TRAINING):
        return ()
    chosen = {
        "all": tuple(ids),
        "first": tuple(ids[:1]),
        "last": tuple(ids[-1:]),
        "reversed": tuple(ids[::-1]),
        "rest": tuple(ids[1:]),
    }[move.target]
    return chosen or None
