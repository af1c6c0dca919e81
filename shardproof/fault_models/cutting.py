"""Correct implementations of layouts that are not flat padded, plain: an all-gather of equal counts, put in order.

One session serves them all. A layout is the arithmetic of what a rank stores, of its own like everything here: none of
it comes from the model that judges it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from shardproof.fault_models.base import Entry, FlatSession, Saved

# (offset in the shard, start in the parameter, block length, blocks apart, blocks)
Block = tuple[int, int, int, int, int]
Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """What one rank stores of one parameter: so many elements, of which these blocks are the parameter's."""

    stored: int
    blocks: tuple[Block, ...]

    @property
    def owned(self) -> int:
        """Elements of the parameter."""
        return sum(length * count for _, _, length, _, count in self.blocks)


def parts_of(tensor: torch.Tensor, at: int, length: int, apart: int, count: int) -> torch.Tensor:
    """Blocks of a contiguous flat tensor, as a (count, length) view."""
    return tensor.as_strided((count, length), (apart, 1), int(tensor.storage_offset()) + at)


class Cutting:
    """The form that all these have. `part` is what differs; `options` are what a layout needs to be told."""

    layouts: ClassVar[tuple[str, ...]]
    alignments: ClassVar[tuple[int, ...]] = (1, 2, 3, 8)

    class Session(FlatSession):
        """Made by each subclass for itself, below."""

    def __init_subclass__(cls) -> None:
        """A mistake in the arithmetic is the session's as well."""
        super().__init_subclass__()
        attributes = {"cutting": cls, "__doc__": cls.Session.__doc__}
        cls.Session = type("Session", (cls.Session,), attributes)  # type: ignore[misc,assignment]  # a class made here

    @classmethod
    def part(cls, shape: Shape, rank: int, world_size: int, **options: Any) -> Part:
        """What this rank stores."""
        raise NotImplementedError

    @classmethod
    def gathered(cls, shape: Shape, world_size: int, **options: Any) -> int:
        """Elements of a buffer that equal counts are gathered into: as many as the longest part, of every rank."""
        return world_size * max(cls.part(shape, rank, world_size, **options).stored for rank in range(world_size))

    @classmethod
    def shard(cls, full: torch.Tensor, rank: int, world_size: int, **options: Any) -> torch.Tensor:
        """What this rank stores, padding as zeros."""
        return cls.cut(full, cls.part(tuple(full.shape), rank, world_size, **options))

    @classmethod
    def cut(cls, full: torch.Tensor, part: Part) -> torch.Tensor:
        """That part of a parameter."""
        flat = full.contiguous().reshape(-1)
        shard = flat.new_zeros(part.stored)
        for local, start, length, apart, count in part.blocks:
            parts_of(shard, local, length, length, count).copy_(parts_of(flat, start, length, apart, count))
        return shard

    @classmethod
    def layout(cls, shape: Sequence[int], rank: int, world_size: int, **options: Any) -> dict[str, Any]:
        """What `shard` would store, without data."""
        part = cls.part(tuple(shape), rank, world_size, **options)
        return {
            "shard_numel": part.stored,
            "padded_numel": cls.gathered(tuple(shape), world_size, **options),
            "runs": list(part.blocks),
            "logical_shape": tuple(shape),
        }


class CutSession(FlatSession):
    """Over what `cutting` cuts: every rank sends as many elements as the longest part has; pieces are put in order."""

    cutting: ClassVar[type[Cutting]]

    def __init__(self, group: Any, device: torch.device, layout: Mapping[str, Any]) -> None:
        """Keep what the layout says."""
        super().__init__(group, device, layout)
        self.said = {name: value for name, value in layout.items() if name != "kind" and value not in (None, ())}
        self.parts: dict[str, list[Part]] = {}

    def options(self, id: str) -> dict[str, Any]:  # noqa: ARG002  # in buckets each parameter has its own
        """What the layout of a parameter depends on."""
        return self.said

    def take(self, specs: Sequence[Any]) -> dict[str, Entry]:
        """Entries, and what every rank stores of each."""
        entries = super().take(specs)
        for entry in entries.values():
            options = self.options(entry.id)
            ranks = range(self.world_size)
            self.parts[entry.id] = [self.cutting.part(entry.shape, r, self.world_size, **options) for r in ranks]
        return entries

    def describe(self, id: str, entry: Entry) -> dict[str, Any]:
        """With the length of this rank's part."""
        return super().describe(id, entry) | {"expected": self.part(entry).stored}

    def stored(self, numel: int) -> int:
        """Not a question of the numel here."""
        return numel

    def same(self, one: list[dict[str, Any]], other: list[dict[str, Any]]) -> bool:
        """Lengths differ between ranks by right."""
        lengths = ("stored", "expected")
        return [{name: p[name] for name in p if name not in lengths} for p in one] == [
            {name: p[name] for name in p if name not in lengths} for p in other
        ]

    def part(self, entry: Entry) -> Part:
        """What this rank stores."""
        return self.parts[entry.id][self.rank]

    def owned(self, entry: Entry) -> int:
        """Elements of the parameter in this rank's part."""
        return self.part(entry).owned

    def longest(self, entry: Entry) -> int:
        """Elements of the longest part."""
        return max(part.stored for part in self.parts[entry.id])

    def buffer(self, entry: Entry) -> torch.Tensor:
        """As many elements of each rank."""
        return torch.empty(self.world_size * self.longest(entry), dtype=entry.dtype, device=self.device)

    def pieces(self, entry: Entry, buffer: torch.Tensor) -> list[torch.Tensor]:
        """One of each rank."""
        return list(buffer.view(self.world_size, self.longest(entry)))

    def sent(self, entry: Entry) -> torch.Tensor:
        """The shard, at the length of the longest."""
        sent = entry.shard.new_zeros(self.longest(entry))
        sent[: entry.shard.numel()] = entry.shard.reshape(-1)
        return sent

    def complete(self, entry: Entry) -> None:
        """Put the pieces in order once they are there."""
        under_way = entry.work is not None
        super().complete(entry)
        if under_way:
            assert entry.buffer is not None  # a gather has one
            entry.buffer = self.ordered(entry, self.pieces(entry, entry.buffer))

    def ordered(self, entry: Entry, pieces: Sequence[torch.Tensor]) -> torch.Tensor:
        """The flat parameter."""
        flat = torch.empty(entry.numel, dtype=entry.dtype, device=self.device)
        for part, piece in zip(self.parts[entry.id], pieces, strict=True):
            for local, start, length, apart, count in part.blocks:
                parts_of(flat, start, length, apart, count).copy_(parts_of(piece, local, length, length, count))
        return flat

    def pad(self, entry: Entry, total: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:  # noqa: ARG002  # as above
        """A copy of the whole gradient: what is no part of it is not sent."""
        return total.reshape(-1).to(dtype, copy=True)

    def cut(self, entry: Entry, padded: torch.Tensor) -> torch.Tensor:
        """This rank's part."""
        return self.cutting.cut(padded, self.part(entry))

    def squares(self, entry: Entry, shard: torch.Tensor) -> torch.Tensor:  # noqa: ARG002  # the base looks at the entry
        """Of all that is stored: padding is zero."""
        return shard.double().square().sum()

    def loaded(self, entry: Entry, saved: Saved) -> torch.Tensor:
        """This rank's part of what the file holds."""
        return self.cutting.cut(saved.parameters[entry.id], self.part(entry))


class Ragged(Cutting):
    """Units that are never split, in turn until the parameter ends: each lies where its first element would."""

    layouts = ("ragged",)

    class Session(CutSession):
        """Parts of any length."""

    @classmethod
    def part(cls, shape: Shape, rank: int, world_size: int, **options: Any) -> Part:
        """Without padding."""
        start, end = (cls.edge(math.prod(shape), number, world_size, options["units"]) for number in (rank, rank + 1))
        return Part(end - start, ((0, start, end - start, end - start, 1),) if end > start else ())

    @classmethod
    def edge(cls, numel: int, rank: int, world_size: int, units: Sequence[int]) -> int:
        """Where the first unit starts that is this rank's, or a later one's."""
        share = -(-numel // world_size)
        whole = sum(units)
        position = rank * share // whole * whole
        for unit in (*units, *units):
            if position >= rank * share:
                break
            position += unit
        return min(position, numel)


class Grouped(Cutting):
    """Flat padded inside each group of consecutive ranks; groups hold the same."""

    layouts = ("grouped",)

    class Session(CutSession):
        """Every rank is sent everything, and takes what its own group has."""

        def __init__(self, group: Any, device: torch.device, layout: Mapping[str, Any]) -> None:
            """Which ranks are in this rank's group."""
            super().__init__(group, device, layout)
            self.size = int(layout["group_size"])
            self.first = self.rank // self.size * self.size

        def ordered(self, entry: Entry, pieces: Sequence[torch.Tensor]) -> torch.Tensor:
            """From the pieces of this group."""
            flat = torch.empty(entry.numel, dtype=entry.dtype, device=self.device)
            for rank in range(self.first, self.first + self.size):
                for local, start, length, apart, count in self.parts[entry.id][rank].blocks:
                    parts_of(flat, start, length, apart, count).copy_(
                        parts_of(pieces[rank], local, length, length, count)
                    )
            return flat

        def squares(self, entry: Entry, shard: torch.Tensor) -> torch.Tensor:
            """Each element once, though every group has it."""
            return super().squares(entry, shard) * (self.first == 0)

    @classmethod
    def owned(cls, numel: int, place: int, stored: int) -> int:
        """Elements of the parameter on the rank at this place of its group."""
        return max(0, min(stored, numel - place * stored))

    @classmethod
    def stored(cls, numel: int, size: int, alignment: int) -> int:
        """Elements that every rank of a group of this size stores."""
        return -(-numel // (size * alignment)) * alignment

    @classmethod
    def part(cls, shape: Shape, rank: int, world_size: int, **options: Any) -> Part:  # noqa: ARG003  # one signature for all layouts
        """By its place in the group."""
        numel, size = math.prod(shape), options["group_size"]
        stored, place = cls.stored(numel, size, options.get("alignment", 1)), rank % size
        owned = cls.owned(numel, place, stored)
        return Part(stored, ((0, place * stored, owned, owned, 1),) if owned else ())

    @classmethod
    def gathered(cls, shape: Shape, world_size: int, **options: Any) -> int:
        """A group's parts."""
        return cls.part(shape, 0, world_size, **options).stored * int(options["group_size"])


class GroupedChunk(Cutting):
    """Slices along a dim inside each group of consecutive ranks; groups hold the same."""

    layouts = ("grouped_chunk",)

    class Session(Grouped.Session):
        """As where groups are flat padded."""

    @classmethod
    def part(cls, shape: Shape, rank: int, world_size: int, **options: Any) -> Part:  # noqa: ARG003  # one signature for all layouts
        """A block for each index into the dims before the cut one."""
        dim, size = options.get("dim", 0), options["group_size"]
        outer, inner = math.prod(shape[:dim]), math.prod(shape[dim + 1 :])
        first = min(rank % size * -(-shape[dim] // size), shape[dim])
        length = (min(first + -(-shape[dim] // size), shape[dim]) - first) * inner
        stored = outer * length
        apart = shape[dim] * inner if outer > 1 else length
        return Part(stored, ((0, first * inner, length, apart, outer),) if stored else ())

    @classmethod
    def gathered(cls, shape: Shape, world_size: int, **options: Any) -> int:
        """A group's parts, as long as the first, the longest."""
        return cls.part(shape, 0, world_size, **options).stored * int(options["group_size"])


class TwoDimensional(Cutting):
    """Slices along a dim over the tensor ranks, each flat padded over the data ranks."""

    layouts = ("two_dimensional",)

    class Session(CutSession):
        """Blocks from every rank."""

    @classmethod
    def part(cls, shape: Shape, rank: int, world_size: int, **options: Any) -> Part:  # noqa: ARG003  # one signature for all layouts
        """Elements [first, end) of the slice, which is rows of `inner` elements in the parameter."""
        dim, (data, tensor) = options.get("dim", 0), options["mesh"]
        most = -(-shape[dim] // tensor)
        begin = min(rank % tensor * most, shape[dim])
        outer, inner = math.prod(shape[:dim]), math.prod(shape[dim + 1 :])
        row = (min(begin + most, shape[dim]) - begin) * inner
        alignment = options.get("alignment", 1)
        stored = -(-outer * row // (data * alignment)) * alignment
        first = min(rank // tensor * stored, outer * row)
        end = min(first + stored, outer * row)
        return Part(stored, tuple(cls.blocks(first, end, row, shape[dim] * inner, begin * inner)))

    @classmethod
    def blocks(cls, first: int, end: int, row: int, apart: int, begin: int) -> Iterator[Block]:
        """The rest of a row, whole rows, and a row's start."""
        at = first
        while at < end:
            number, within = divmod(at, row)
            whole = (end - at) // row if not within else 0
            length = row if whole else min(row - within, end - at)
            count = max(whole, 1)
            yield at - first, number * apart + begin + within, length, apart if count > 1 else length, count
            at += count * length

    @classmethod
    def gathered(cls, shape: Shape, world_size: int, **options: Any) -> int:
        """As many elements of each rank as the first tensor rank's have, whose slice is the longest."""
        return world_size * cls.part(shape, 0, world_size, **options).stored


@dataclass(slots=True)
class Bucket:
    """Parameters in elements [low, high) of a buffer: where each starts there, by its number."""

    low: int
    high: int = 0
    starts: dict[int, int] = field(default_factory=dict)


class Buckets(Cutting):
    """One flat buffer a dtype, in buckets that are each cut into equal shares: ZeRO-1/2 and Megatron-Core."""

    layouts = ("bucket",)

    class Session(CutSession):
        """A parameter is gathered and reduced in the place that it has in its bucket."""

        cutting: ClassVar[type[Buckets]]

        def take(self, specs: Sequence[Any]) -> dict[str, Entry]:
            """Lay out all parameters of each dtype, tied ones once."""
            ids = {spec.id for spec in specs}
            own = [spec for spec in specs if spec.tied_to not in ids]
            alike = {spec.id: [other for other in own if other.dtype == spec.dtype] for spec in own}
            self.together = {id: [other.id for other in others] for id, others in alike.items()}
            self.shapes = {
                id: {"shapes": [tuple(other.shape) for other in others], "index": self.together[id].index(id)}
                for id, others in alike.items()
            }
            return super().take(specs)

        def options(self, id: str) -> dict[str, Any]:
            """With what lies in the same buffer."""
            return self.said | self.shapes[id]

        def bucket(self, entry: Entry) -> tuple[Bucket, int]:
            """The parameter's bucket, and where in it the parameter starts."""
            options = self.options(entry.id)
            bucket = self.cutting.bucket(self.world_size, **options)
            return bucket, bucket.starts[options["index"]] - bucket.low

        def longest(self, entry: Entry) -> int:
            """A share of the bucket."""
            bucket, _ = self.bucket(entry)
            return (bucket.high - bucket.low) // self.world_size

        def sent(self, entry: Entry) -> torch.Tensor:
            """The share of the bucket, zeros where other parameters have theirs."""
            share, (_, start) = self.longest(entry), self.bucket(entry)
            sent = entry.shard.new_zeros(share)
            begin = min(max(start - self.rank * share, 0), share)
            sent[begin : begin + entry.shard.numel()] = entry.shard.reshape(-1)
            return sent

        def ordered(self, entry: Entry, pieces: Sequence[torch.Tensor]) -> torch.Tensor:  # noqa: ARG002  # end to end in the buffer
            """The bucket is in order as it is."""
            assert entry.buffer is not None  # it was gathered into
            return entry.buffer

        def view(self, entry: Entry) -> torch.Tensor:
            """The parameter's place in the bucket."""
            assert entry.buffer is not None  # a complete gather has one
            return entry.buffer.narrow(0, self.bucket(entry)[1], entry.numel).view(entry.shape)

        def pad(self, entry: Entry, total: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
            """The bucket with nothing but this gradient in it."""
            bucket, start = self.bucket(entry)
            padded = torch.zeros(bucket.high - bucket.low, dtype=dtype, device=self.device)
            padded[start : start + entry.numel] = total.reshape(-1)
            return padded

        def cut(self, entry: Entry, padded: torch.Tensor) -> torch.Tensor:
            """What lies in this rank's share."""
            (part,), start = self.part(entry).blocks or ((0, 0, 0, 0, 0),), self.bucket(entry)[1]
            return padded[start + part[1] : start + part[1] + part[2]].clone()

    @classmethod
    def laid_out(cls, world_size: int, shapes: Sequence[Sequence[int]], **options: Any) -> list[Bucket]:
        """Every bucket. A parameter that would end past the cap starts a new one, unless it is the first in it."""
        buckets, used = [Bucket(0)], 0
        for number, shape in enumerate(shapes):
            numel = math.prod(shape)
            start = cls.up(used, options.get("parameter_alignment", 1))
            cap = options.get("bucket_numel")
            if cap is not None and used > buckets[-1].low and start + numel - buckets[-1].low > cap:
                cls.close(buckets[-1], used, world_size, **options)
                buckets.append(Bucket(cls.opened(buckets[-1], used, **options)))
                start = cls.up(buckets[-1].low, options.get("parameter_alignment", 1))
            buckets[-1].starts[number] = start
            used = start + numel
        cls.end(buckets[-1], used, world_size, **options)
        return buckets

    @classmethod
    def up(cls, position: int, multiple: int) -> int:
        """To the next multiple."""
        return -(-position // multiple) * multiple

    @classmethod
    def close(cls, bucket: Bucket, used: int, world_size: int, **options: Any) -> None:
        """End a bucket that another one follows."""
        cls.end(bucket, used, world_size, **options)

    @classmethod
    def end(cls, bucket: Bucket, used: int, world_size: int, **options: Any) -> None:
        """To a multiple of every rank's alignment and of the bucket's own."""
        each = world_size * options.get("alignment", 1)
        bucket.high = cls.up(used, math.lcm(each, options.get("bucket_alignment", 1)))

    @classmethod
    def opened(cls, last: Bucket, used: int, **options: Any) -> int:  # noqa: ARG003  # fault models look at the rest
        """Where the next bucket starts."""
        return last.high

    @classmethod
    def bucket(cls, world_size: int, **options: Any) -> Bucket:
        """The one that the parameter lies in."""
        return next(bucket for bucket in cls.laid_out(world_size, **options) if options["index"] in bucket.starts)

    @classmethod
    def part(cls, shape: Shape, rank: int, world_size: int, **options: Any) -> Part:
        """What lies in this rank's share of the bucket, without gaps."""
        bucket = cls.bucket(world_size, **options)
        share, start = (bucket.high - bucket.low) // world_size, bucket.starts[options["index"]] - bucket.low
        first, last = (min(max(at * share - start, 0), math.prod(shape)) for at in (rank, rank + 1))
        return Part(last - first, ((0, first, last - first, last - first, 1),) if last > first else ())

    @classmethod
    def gathered(cls, shape: Shape, world_size: int, **options: Any) -> int:  # noqa: ARG003  # one signature for all layouts
        """The whole bucket."""
        bucket = cls.bucket(world_size, **options)
        return bucket.high - bucket.low

    @classmethod
    def layout(cls, shape: Sequence[int], rank: int, world_size: int, **options: Any) -> dict[str, Any]:
        """With the place in the buffer."""
        bucket = cls.bucket(world_size, **options)
        place = bucket.starts[options["index"]], bucket.low, bucket.high
        return super().layout(shape, rank, world_size, **options) | {"place": place}
