"""State that does not survive."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from invariants import Seen, Step
from tests.invariants.good import (
    BACKWARD,
    FORWARD,
    GATHER,
    LOAD,
    NORM,
    REDUCE_AGAIN,
    REGISTER,
    RELOADED,
    SAVE,
    STEPPED,
    WAIT,
    bits_of,
    both,
    change,
    expect,
    flipped,
    lost,
    only,
    result,
    until,
    without_result,
)
from tests.invariants.plants import Plant, Plants, Unjudged


def _moved(by: float) -> Callable[[Step], dict[str, Seen]]:
    """For `change(results=...)`: the second element of a is further on."""

    def move(step: Step) -> dict[str, Seen]:
        numbers = np.frombuffer(step.results["a"].bits, "<f4").copy()
        numbers[1] += by
        return {**step.results, "a": replace(step.results["a"], bits=numbers.tobytes())}

    return move


_NUMBERS = np.arange(5, dtype="<f4").tobytes()
# Training rounded: each element of a is known up to 1 after the step.
_ROOM = both(
    expect(STEPPED, results={"a": _NUMBERS}, room={"a": 1.0}), change(STEPPED, None, results=result("a", bits=_NUMBERS))
)
# The norm's step is a clip to a bound: right, and off by a factor.
_CLIPPED = tuple(
    both(change(NORM, None, kind="clip", scalar=5.0), expect(NORM, scalar=5.0), change(NORM, 1, scalar=scalar))
    for scalar in (5.0, 6.0)
)
_OPEN = expect(REGISTER, wanted="unspecified")
_SAVE_RAISES = change(SAVE, 1, outcome="raised", error="OSError: disk full\n", results={})

PLANTED: Plants = {
    "reshard-identity": (
        Plant("saved from wrong offsets", change(SAVE, 0, results=flipped("a", 8)), "at element 2", 0, "a", SAVE, 2),
        Plant("loaded wrongly", change(RELOADED, 1, results=flipped("a", 19)), "at element 4", 1, "a", RELOADED, 4),
        Plant("older contents", change(RELOADED, 0, results=result("a", bits=bits_of("a", WAIT))), "5 of 5 wrong", 0),
        Plant(
            "load raises",
            change(LOAD, 1, outcome="raised", error="CheckpointError: rank 3's file is missing"),
            "load raised: CheckpointError: rank 3's file is missing",
            1,
            None,
            LOAD,
        ),
        Plant("lost while saving", lost(SAVE, 0), "save lost", 0, None, SAVE),
    ),
    "artefact-has-logical-shape": (
        Plant("padded", change(SAVE, 1, results=result("a", shape=(6,))), "float32 of shape (6,)", 1, "a", SAVE),
        Plant("another dtype", change(SAVE, 0, results=result("b", dtype="float64")), "float64 of shape (1,)", 0, "b"),
        Plant("left out", change(SAVE, 0, results=without_result("b")), "not in what was saved", 0, "b", SAVE),
        Plant("raises", _SAVE_RAISES, "save raised: OSError: disk full", 1, "a", SAVE),
    ),
    "scalars-untouched": (
        Plant("sliced away", change(LOAD, 1, scalars={}), "no steps after the load", 1, None, LOAD),
        Plant("set back", change(LOAD, 0, scalars={"steps": 0.0}), "steps = 0.0 after the load", 0),
        Plant("another kind of number", change(LOAD, 0, scalars={"steps": float("nan")}), "steps = nan", 0),
    ),
    "counters-reset": (
        Plant(
            "not set back",
            change(REDUCE_AGAIN, 1, counters={"bucket": 14}),
            "bucket = 14 after reduce",
            1,
            None,
            REDUCE_AGAIN,
        ),
        Plant("gone", change(REDUCE_AGAIN, 0, counters={"other": 7}), "bucket = None after reduce", 0),
    ),
    "profile-complete": (
        Plant(
            "another name",
            change(GATHER, 0, profile=({"alloc_mem": 0.0, "max_memory": 1.0, "device_time": 0.0, "wall_time": 0.0},)),
            "a record with alloc_mem, max_memory, device_time, wall_time",
            0,
            None,
            GATHER,
        ),
        Plant("empty", change(GATHER, 1, profile=({},)), "a record with no keys", 1),
    ),
    "training-parity": (
        Plant(
            "stale after a step",
            change(STEPPED, 1, results=result("a", bits=bits_of("a", RELOADED))),
            "5 of 5 wrong",
            1,
            "a",
            STEPPED,
        ),
        Plant(
            "gradient of one rank",
            change(BACKWARD, 1, results=flipped("a", 6)),
            "at element 4 (shard offset 1",
            1,
            "a",
            BACKWARD,
            4,
        ),
        Plant("norm", _CLIPPED[1], "norm before clipping 6.0", 1, None, NORM),
        Plant("beyond the room", both(_ROOM, change(STEPPED, 1, results=_moved(2.0))), "1 of 5 wrong", 1, "a"),
        Plant("loss", change(FORWARD, 0, scalar=12.25), "loss 12.25", 0, None, FORWARD),
        Plant("loss is no number", change(FORWARD, 1, scalar=float("nan")), "loss nan", 1),
        Plant(
            "gather after it raises", change(STEPPED, 0, outcome="raised", error="E: x", results={}), "gather raised", 0
        ),
    ),
}

_NOT_READ = both(change(SAVE, None, results={}), only("register", "save", "gather"))
UNJUDGED: Unjudged = {
    "reshard-identity": (_OPEN, until(GATHER), _NOT_READ),
    "artefact-has-logical-shape": (_OPEN, until(GATHER), _NOT_READ),
    "scalars-untouched": (until(SAVE), change(SAVE, None, scalars={}), only("load")),
    "counters-reset": (until(STEPPED), change(REDUCE_AGAIN, None, counters={})),
    "profile-complete": (change(GATHER, None, profile=()),),
    "training-parity": (_OPEN, until(RELOADED), both(until(FORWARD), expect(FORWARD, scalar=None))),
}
