"""One run of two ranks in which nothing is wrong, and ways to break it in one place.

Parameter a has 5 elements (one of padding on rank 1), b has 1 (rank 1 owns nothing) and c is tied to a. Gathered
memory is storage 100 for a and c, 200 for b; shards are storages 10 and 20.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np

from invariants import Buffer, Call, Claim, Cost, Evidence, Expected, Held, RankStory, Seen, Step, Subject
from reference import FlatPadded, encode, reduce_scatter

WORLD_SIZE = 2
SHAPES: Mapping[str, tuple[int, ...]] = {"a": (5,), "b": (1,), "c": (5,)}
_LAYOUTS = {id: FlatPadded(shape, WORLD_SIZE) for id, shape in SHAPES.items()}
_MEMORY = {"a": (10, 100), "b": (20, 200), "c": (10, 100)}

PROGRAM: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("register", ("a", "b", "c")),
    ("layout", ("a", "b")),
    ("prefetch", ("a", "b")),
    ("wait", ("a", "b")),
    ("update", ("a",)),
    ("gather", ("a",)),
    ("use", ("a",)),
    ("gather", ("a",)),
    ("invalidate", ("a",)),
    ("accumulate", ("a", "b")),
    ("reduce", ("a", "b")),
    ("norm", ("a", "b")),
    ("save", ("a", "b")),
    ("load", ("a", "b")),
    ("gather", ("a",)),
    ("forward", ("a", "b")),
    ("backward", ("a", "b")),
    ("step", ("a", "b")),
    ("gather", ("a",)),
    ("reduce", ("a", "b")),
    ("release", ("a", "b")),
    ("use", ("a",)),
)
REGISTER, LAYOUT, PREFETCH, WAIT, UPDATE, GATHER, USE, CACHED, INVALIDATE, ACCUMULATE, REDUCE, NORM = range(12)
SAVE, LOAD, RELOADED, FORWARD, BACKWARD, STEP, STEPPED, REDUCE_AGAIN, RELEASE, LAST_USE = range(12, 22)

# How often a was written before each step.
_GENERATIONS = {"a": (UPDATE, STEP), "b": (STEP,), "c": (UPDATE, STEP)}


def bits_of(id: str, index: int) -> bytes:
    """What the parameter holds at that step: NaNs, negative zeros and whatever else 32 random bits mean."""
    root = "a" if id == "c" else id
    generation = sum(index > written for written in _GENERATIONS[root])
    words = np.random.default_rng([ord(root), generation]).integers(0, 1 << 32, SHAPES[id], np.uint32)
    words[0] = 0x7F800001 + generation
    return words.astype("<u4").tobytes()


def earlier_than(id: str, index: int) -> tuple[bytes, ...]:
    """What the parameter held before it was written last, as seen from that step."""
    return tuple(bits_of(id, written) for written in _GENERATIONS[id] if written < index)


def gradient(id: str, index: int, rank: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """An integer gradient that differs on every rank, step and position."""
    return np.arange(1, 1 + SHAPES[id][0]) * (rank + 2) + 10 * index + ord(id)


def reduced_of(id: str, indices: tuple[int, ...]) -> list[bytes]:
    """Each rank's shard of the sum over these steps and all ranks."""
    totals = [np.sum([gradient(id, index, rank) for index in indices], axis=0) for rank in range(WORLD_SIZE)]
    shards = reduce_scatter(totals, _LAYOUTS[id], "sum")
    return [encode(shard, "float32").astype("<u4").tobytes() for shard in shards]


def norm_of(indices: tuple[int, ...]) -> float:
    """The norm of those sums, unsharded."""
    totals = [np.sum([gradient(id, i, rank) for i in indices for rank in range(WORLD_SIZE)], axis=0) for id in "ab"]
    return sqrt(sum(int(value) ** 2 for total in totals for value in total))


def seen(id: str, bits: bytes, **other: Any) -> Seen:
    """A gathered parameter as a view of its buffer."""
    memory = {"storage": _MEMORY[id][1], "storage_nbytes": _LAYOUTS[id].padded_numel * 4}
    return Seen("float32", SHAPES[id], bits, strides=(1,), **memory | other)


def all_gather(*ids: str) -> Call:
    """The collective that gathers these."""
    lengths = {id: _LAYOUTS[id].shard_numel(0) for id in ids}
    send = tuple(Buffer(lengths[id], "float32", True, _MEMORY[id][0]) for id in ids)
    recv = tuple(Buffer(WORLD_SIZE * lengths[id], "float32", True, _MEMORY[id][1]) for id in ids)
    return Call("all_gather", send, recv)


def claim_of(layout: Any, rank: int) -> Claim:
    """The model's layout as an implementation that is right would claim it."""
    return Claim(layout.shard_numel(rank), layout.padded_numel, layout.runs(rank), layout.shape)


_PROFILE = ({"alloc_mem": 0.0, "max_mem": 24.0, "device_time": 0.1, "wall_time": 0.1},)

_SCATTER = Cost((Call("reduce_scatter", (Buffer(6, "float32", True, 31),), (Buffer(3, "float32", True, 32),)),))


def _gathered(ids: str, index: int, **other: Any) -> dict[str, Seen]:
    return {id: seen(id, bits_of(id, index), **other) for id in ids}


def _reduced(indices: tuple[int, ...], rank: int) -> dict[str, Seen]:
    shards = {id: reduced_of(id, indices)[rank] for id in "ab"}
    return {id: Seen("float32", (len(bits) // 4,), bits, strides=(1,), storage=32) for id, bits in shards.items()}


def _expected_reduced(indices: tuple[int, ...]) -> Expected:
    shards = {id: reduced_of(id, indices) for id in "ab"}
    return Expected(per_rank=tuple({id: shards[id][rank] for id in "ab"} for rank in range(WORLD_SIZE)))


# By step: what both ranks saw beyond the plain fact that it was done.
_FOUND: Mapping[int, dict[str, Any]] = {
    REGISTER: {"available": {"a": False, "b": False, "c": False}},
    PREFETCH: {"cost": Cost((all_gather("a", "b"),), 2, 32), "available": {"a": False, "b": False}},
    WAIT: {"results": _gathered("ab", WAIT), "available": {"a": True, "b": True}},
    UPDATE: {"available": {"a": False}},
    GATHER: {
        "results": _gathered("a", GATHER),
        "cost": Cost((all_gather("a"),)),
        "available": {"a": True},
        "warm": True,
        "profile": _PROFILE,
    },
    USE: {"held": (Held("a", GATHER, released=False),)},
    CACHED: {"results": _gathered("a", CACHED), "available": {"a": True}, "warm": True},
    INVALIDATE: {"available": {"a": False}},
    REDUCE: {"counters": {"bucket": 7}, "cost": _SCATTER},
    NORM: {"scalar": norm_of((ACCUMULATE, REDUCE))},
    SAVE: {"results": _gathered("ab", SAVE, storage=300), "scalars": {"steps": 3.0}},
    LOAD: {"scalars": {"steps": 3.0}, "available": {"a": False, "b": False}},
    RELOADED: {"results": _gathered("a", RELOADED), "cost": Cost((all_gather("a"),)), "warm": True},
    FORWARD: {"scalar": 12.5},
    STEPPED: {"results": _gathered("a", STEPPED), "cost": Cost((all_gather("a"),)), "warm": True},
    REDUCE_AGAIN: {"counters": {"bucket": 7}, "cost": _SCATTER},
    RELEASE: {"freed": {"a": True, "b": True}},
    LAST_USE: {"held": (Held("a", STEPPED, released=True),)},
}

# And what each rank saw for itself.
_OWN: Mapping[int, Callable[[int], dict[str, Any]]] = {
    LAYOUT: lambda rank: {"claims": {id: claim_of(_LAYOUTS[id], rank) for id in "ab"}},
    REDUCE: lambda rank: {"results": _reduced((ACCUMULATE, REDUCE), rank)},
    BACKWARD: lambda rank: {"results": _reduced((BACKWARD,), rank)},
    REDUCE_AGAIN: lambda rank: {"results": _reduced((REDUCE_AGAIN,), rank)},
}

_EXPECTED: Mapping[int, Expected] = {
    **{
        i: Expected(results={id: bits_of(id, i) for id in "abc"}, earlier={id: earlier_than(id, i) for id in "abc"})
        for i in (WAIT, GATHER, CACHED, SAVE, RELOADED, STEPPED)
    },
    REDUCE: _expected_reduced((ACCUMULATE, REDUCE)),
    NORM: Expected(scalar=norm_of((ACCUMULATE, REDUCE))),
    FORWARD: Expected(scalar=12.5),
    BACKWARD: _expected_reduced((BACKWARD,)),
    REDUCE_AGAIN: _expected_reduced((REDUCE_AGAIN,)),
}


def _step(index: int, rank: int) -> Step:
    kind, ids = PROGRAM[index]
    found = _FOUND.get(index, {}) | (_OWN[index](rank) if index in _OWN else {})
    return Step(index, kind, ids, rank, WORLD_SIZE, seconds=0.5, began=index + rank / 10, **found)


def _subjects() -> dict[str, Subject]:
    tied = {"c": "a"}
    return {
        id: Subject(id, shape, "float32", {WORLD_SIZE: _LAYOUTS[id]}, tied_to=tied.get(id), grad_buffer="partition")
        for id, shape in SHAPES.items()
    }


def good_evidence() -> Evidence:
    """All of it, twice: the second time under other poison, which shows nowhere."""
    steps = [tuple(_step(index, rank) for index in range(len(PROGRAM))) for rank in range(WORLD_SIZE)]
    expected = tuple(_EXPECTED.get(index, Expected()) for index in range(len(PROGRAM)))
    ranks = tuple(RankStory(rank + 4, "done", steps[rank]) for rank in range(WORLD_SIZE))
    once = Evidence(WORLD_SIZE, _subjects(), ranks, expected)
    return replace(once, second=once)


Break = Callable[[Evidence], Evidence]


def change(index: int, rank: int | None, **fields: Any) -> Break:
    """Other fields in one step of one rank (None: of every rank); a function is given the step for it."""

    def apply(step: Step) -> Step:
        if step.index != index or rank not in (None, step.rank):
            return step
        return replace(step, **{name: new(step) if callable(new) else new for name, new in fields.items()})

    return lambda evidence: replace(evidence, ranks=_map_steps(evidence.ranks, apply))


def change_second(index: int, rank: int | None, **fields: Any) -> Break:
    """The same in the run under other poison."""

    def broken(evidence: Evidence) -> Evidence:
        assert evidence.second is not None
        return replace(evidence, second=change(index, rank, **fields)(evidence.second))

    return broken


def result(id: str, **fields: Any) -> Callable[[Step], dict[str, Seen]]:
    """For `change(results=...)`: other fields in the result for one parameter."""
    return lambda step: {**step.results, id: replace(step.results[id], **fields)}


def without_result(id: str) -> Callable[[Step], dict[str, Seen]]:
    """For `change(results=...)`: nothing for one parameter."""
    return lambda step: {other: one for other, one in step.results.items() if other != id}


def flipped(id: str, byte: int) -> Callable[[Step], dict[str, Seen]]:
    """For `change(results=...)`: one bit of one byte is the other way round."""

    def flip(step: Step) -> dict[str, Seen]:
        bits = bytearray(step.results[id].bits)
        bits[byte] ^= 1
        return {**step.results, id: replace(step.results[id], bits=bytes(bits))}

    return flip


def claim(id: str, **fields: Any) -> Callable[[Step], dict[str, Claim]]:
    """For `change(claims=...)`: other fields in the claim about one parameter."""
    return lambda step: {**step.claims, id: replace(step.claims[id], **fields)}


def calls(*replacement: Call) -> Callable[[Step], Cost]:
    """For `change(cost=...)`: other collectives."""
    return lambda step: replace(step.cost, calls=replacement)


def expect(index: int, **fields: Any) -> Break:
    """Other fields in what the model says of one step."""

    def broken(evidence: Evidence) -> Evidence:
        expected = list(evidence.expected)
        expected[index] = replace(expected[index], **fields)
        return replace(evidence, expected=tuple(expected))

    return broken


def subject(id: str, **fields: Any) -> Break:
    """Other fields in one subject."""
    return lambda evidence: replace(
        evidence, subjects={**evidence.subjects, id: replace(evidence.subjects[id], **fields)}
    )


def lost(index: int, rank: int, ended: str = "hung", error: str = "did not come back in time") -> Break:
    """One rank never returns from a step: the engine then knows that step and nothing else of the rank."""

    def broken(evidence: Evidence) -> Evidence:
        kind, ids = PROGRAM[index]
        step = Step(index, kind, ids, rank, WORLD_SIZE, outcome="lost", error=error, seconds=10.0)
        stories = list(evidence.ranks)
        stories[rank] = RankStory(stories[rank].pool_rank, ended, (step,), error)  # type: ignore[arg-type]  # a str by its caller
        return replace(evidence, ranks=tuple(stories))

    return broken


def until(index: int) -> Break:
    """The program ends behind that step, on every rank."""

    def shorter(evidence: Evidence) -> Evidence:
        ranks = tuple(
            replace(story, steps=tuple(step for step in story.steps if step.index <= index)) for story in evidence.ranks
        )
        second = shorter(evidence.second) if evidence.second else None
        return replace(evidence, ranks=ranks, second=second)

    return shorter


def both(*breaks: Break) -> Break:
    """One change after the other."""

    def apply(evidence: Evidence) -> Evidence:
        for one in breaks:
            evidence = one(evidence)
        return evidence

    return apply


def only(*kinds: str) -> Break:
    """Nothing is known but the steps of these kinds, in one run."""

    def fewer(evidence: Evidence) -> Evidence:
        ranks = tuple(
            replace(story, steps=tuple(step for step in story.steps if step.kind in kinds)) for story in evidence.ranks
        )
        return replace(evidence, ranks=ranks, second=None)

    return fewer


def _map_steps(ranks: tuple[RankStory, ...], apply: Callable[[Step], Step]) -> tuple[RankStory, ...]:
    return tuple(replace(story, steps=tuple(map(apply, story.steps))) for story in ranks)
