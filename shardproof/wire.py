"""Steps between a rank and the parent: JSON for what is small, raw bytes for tensors, nothing for defaults."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from invariants import Buffer, Call, Claim, Cost, Held, Place, Seen, Step
from reference import Run

Packed = dict[str, Any]

_PLAIN = (
    *("outcome", "error", "scalar", "warm", "mutated", "guards", "freed", "available"),
    *("began", "scalars", "counters", "profile", "raised_at"),
)
_plain_of = attrgetter(*_PLAIN)


def pack(steps: Sequence[Step]) -> tuple[list[Packed], list[bytes]]:
    """Steps as JSON values, and the bytes of every tensor they saw, in the order the JSON refers to them."""
    blobs: list[bytes] = []
    return [_pack(step, blobs) for step in steps], blobs


def unpack(packed: Sequence[Packed], blobs: Sequence[bytes | bytearray]) -> tuple[Step, ...]:
    """The steps that `pack` was given."""
    return tuple(_unpack(step, blobs) for step in packed)


def _pack(step: Step, blobs: list[bytes]) -> Packed:
    head = [step.index, step.kind, step.parameters, step.rank, step.world_size, step.seconds]
    packed: Packed = {"head": head}
    for name, value in zip(_PLAIN, _plain_of(step), strict=True):
        if (value and value != "done") or (name == "scalar" and value is not None):
            packed[name] = value
    if step.results:
        packed["results"] = {id: _pack_seen(seen, blobs) for id, seen in step.results.items()}
    if step.held:
        packed["held"] = [[h.parameter, h.gathered_at, h.released, h.first_wrong] for h in step.held]
    if step.claims:
        packed["claims"] = {
            id: [
                c.shard_numel,
                c.padded_numel,
                [_pack_run(run) for run in c.runs],
                c.logical_shape,
                _pack_place(c.place),
            ]
            for id, c in step.claims.items()
        }
    if step.cost != _NO_COST:
        packed["cost"] = _pack_cost(step.cost)
    return packed


_NO_COST = Cost()


def _unpack(packed: Packed, blobs: Sequence[bytes | bytearray]) -> Step:
    index, kind, parameters, rank, world_size, seconds = packed["head"]
    plain: dict[str, Any] = {
        name: tuple(packed[name]) if isinstance(packed[name], list) else packed[name]
        for name in _PLAIN
        if name in packed
    }
    if "results" in packed:
        plain["results"] = {id: _unpack_seen(seen, blobs) for id, seen in packed["results"].items()}
    if "held" in packed:
        plain["held"] = tuple(Held(*held) for held in packed["held"])
    if "claims" in packed:
        plain["claims"] = {
            id: Claim(shard, padded, tuple(Run(*run) for run in runs), tuple(shape), Place(*place) if place else None)
            for id, (shard, padded, runs, shape, place) in packed["claims"].items()
        }
    if "cost" in packed:
        calls, *counts = packed["cost"]
        plain["cost"] = Cost(tuple(_unpack_call(*call) for call in calls), *counts)
    return Step(index, kind, tuple(parameters), rank, world_size, seconds=seconds, **plain)


def _pack_seen(seen: Seen, blobs: list[bytes]) -> list[Any]:
    blobs.append(seen.bits)
    where = [seen.device, seen.strides, seen.offset, seen.storage, seen.storage_nbytes]
    return [seen.dtype, seen.shape, len(blobs) - 1, *where]


def _unpack_seen(packed: Sequence[Any], blobs: Sequence[bytes | bytearray]) -> Seen:
    dtype, shape, blob, device, strides, offset, storage, nbytes = packed
    return Seen(dtype, tuple(shape), bytes(blobs[blob]), device, tuple(strides), offset, storage, nbytes)


def _pack_cost(cost: Cost) -> list[Any]:
    calls = [[call.op, *([_pack_buffer(b) for b in side] for side in (call.send, call.recv))] for call in cost.calls]
    return [calls, cost.allocations, cost.allocated_bytes, cost.copies, cost.copied_bytes, cost.syncs]


def _pack_place(place: Place | None) -> list[int] | None:
    return None if place is None else [place.start, place.low, place.high]


def _pack_run(run: Run) -> list[int]:
    return [run.local, run.start, run.length, run.stride, run.count]


def _pack_buffer(buffer: Buffer) -> list[Any]:
    return [buffer.numel, buffer.dtype, buffer.contiguous, buffer.storage, buffer.offset]


def _unpack_call(op: str, send: Sequence[Sequence[Any]], recv: Sequence[Sequence[Any]]) -> Call:
    return Call(op, tuple(Buffer(*buffer) for buffer in send), tuple(Buffer(*buffer) for buffer in recv))
