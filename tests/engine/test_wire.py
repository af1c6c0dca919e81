from __future__ import annotations

import json

import pytest

from invariants import Buffer, Call, Claim, Cost, Held, Place, Seen, Step
from reference import Run
from shardproof.wire import pack, unpack

PLAIN = Step(0, "register", ("a", "b"), 1, 3)
CALL = Call("all_gather", (Buffer(4, "int8", True, 1, 2),), (Buffer(8, "int8", False, 3),), (0, 2))
FULL = Step(
    index=4,
    kind="gather",
    parameters=("a",),
    rank=0,
    world_size=2,
    outcome="raised",
    error="RuntimeError: no",
    seconds=0.25,
    results={"a": Seen("float32", (2, 1), b"\x01\x02\x03\x04\x05\x06\x07\x08", "cpu", (1, 1), 3, 4096, 64)},
    mutated=("a",),
    guards=("b",),
    held=(Held("a", 1, True, 7), Held("a", 2, False)),
    cost=Cost(
        (Call("all_gather", (Buffer(4, "int8", True, 1, 2),), (Buffer(8, "int8", False, 3),), (0, 2)),), 1, 2, 3, 4, 5
    ),
    claims={"a": Claim(3, 6, (Run(0, 1, 2, 3, 4),), (5,)), "b": Claim(1, 2, (), (2,), Place(3, 2, 6))},
    scalar=0.0,
    freed={"a": False},
    available={"a": True},
    warm=True,
)


@pytest.mark.parametrize("steps", [(), (PLAIN,), (FULL,), (FULL, PLAIN, FULL)], ids=len)
def test_steps_survive_json(steps: tuple[Step, ...]) -> None:
    packed, blobs = pack(steps)
    assert unpack(json.loads(json.dumps(packed)), [bytearray(blob) for blob in blobs]) == steps


def test_defaults_are_not_sent() -> None:
    packed, blobs = pack([PLAIN])
    assert set(packed[0]) == {"head"}
    assert not blobs
