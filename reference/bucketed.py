"""Several parameters in one flat buffer of buckets, every bucket cut evenly: ZeRO-1/2 and Megatron-Core.

The buffer has its own index space, with gaps between parameters and at bucket ends. Logical elements are counted
without those gaps: parameter after parameter. Nothing but `starts` translates between the two.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import lcm, prod
from typing import ClassVar

from reference import layout as laws
from reference.arithmetic import Term, align_up, clamp, floor_div
from reference.layout import checked_at_least, checked_below, checked_shape
from reference.runs import Run, joined, normal


def share_of(low: Term, high: Term, start: Term, numel: Term, world_size: Term, rank: Term) -> Run:
    """What a rank stores of the parameter that starts at `start`, in the bucket from `low` to `high` of the buffer.

    Counted from the parameter's own start. Not in normal form: its length is 0 where the rank owns nothing of it.
    """
    share = floor_div(high - low, world_size)
    mine = low + rank * share
    first = clamp(mine, start, start + numel)
    last = clamp(mine + share, start, start + numel)
    # Buckets tile the buffer and W divides each, so the shares before this bucket's are low / W elements.
    return Run(floor_div(low, world_size) + first - mine, first - start, last - first, last - first, 1)


@dataclass(frozen=True, slots=True)
class Bucketed:
    """The flat buffer that holds parameters of these shapes, in order, as a layout of all their elements.

    A parameter starts at a multiple of `parameter_alignment`. One that would end more than `bucket_numel` elements
    after its bucket's start begins a new bucket (None: all in one); a longer one has a bucket to itself, and none is
    ever split. With `bucket_least` a bucket ends behind the parameter with which it holds as many elements, gaps
    included. A bucket's end is a multiple of `bucket_alignment` and of W * `alignment`, so that each rank's share of
    each bucket is a multiple of `alignment`; the next bucket starts there. A rank stores its shares one after another.

    Megatron-Core (core/distributed/param_and_grad_buffer.py) is parameter_alignment 64, bucket_alignment 128 and its
    bucket_size as `bucket_least`; ZeRO-1/2 is one bucket with `alignment` as nccl_start_alignment_factor. Raises
    ValueError for no shapes, a negative dim, and a world size, cap, least or alignment below 1.
    """

    shapes: tuple[tuple[int, ...], ...]
    world_size: int
    bucket_numel: int | None = None
    parameter_alignment: int = 1
    bucket_alignment: int = 1
    alignment: int = 1
    bucket_least: int | None = None
    starts: tuple[int, ...] = field(init=False)
    """Where each parameter starts in the buffer."""
    edges: tuple[int, ...] = field(init=False)
    """Where the first bucket starts, and where each ends."""
    numbers: tuple[int, ...] = field(init=False)
    """The number of each parameter's bucket: the one that was open when it was laid out, elements or none."""

    kind: ClassVar[str] = "bucket"

    def __post_init__(self) -> None:
        """Check, keep plain ints, and lay the parameters out."""
        object.__setattr__(self, "shapes", tuple(checked_shape(shape) for shape in self.shapes))
        if not self.shapes:
            raise ValueError("shapes: observed none, expected at least one")
        for name in ("world_size", "parameter_alignment", "bucket_alignment", "alignment"):
            object.__setattr__(self, name, checked_at_least(name.replace("_", " "), getattr(self, name), 1))
        for name in ("bucket_numel", "bucket_least"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, checked_at_least(name.replace("_", " "), getattr(self, name), 1))
        for name, value in zip(("starts", "edges", "numbers"), _laid_out(self), strict=True):
            object.__setattr__(self, name, value)

    @property
    def numels(self) -> tuple[int, ...]:
        """Elements of each parameter."""
        return tuple(prod(shape) for shape in self.shapes)

    @property
    def numel(self) -> int:
        """Elements of all parameters, without any gap."""
        return sum(self.numels)

    @property
    def shape(self) -> tuple[int, ...]:
        """All parameters flattened, one after the other."""
        return (self.numel,)

    @property
    def padded_numel(self) -> int:
        """The buffer's length."""
        return self.edges[-1]

    @property
    def owes(self) -> frozenset[str]:
        """Ranks hold elements in order only inside one bucket; gaps shift a rank's part against its shard's start."""
        always = laws.OWED_BY_ALL | {laws.OWNED_EXACTLY_ONCE}
        return always | {laws.ORDER_KEPT} if len(self.edges) <= 2 else always

    def shard_numel(self, rank: int) -> int:
        """The rank's shares of all buckets, gaps included."""
        checked_below("rank", rank, self.world_size)
        return self.padded_numel // self.world_size

    def owned(self, rank: int) -> int:
        """Elements of parameters among those."""
        return sum(run.numel for run in self.runs(rank))

    def runs(self, rank: int) -> tuple[Run, ...]:
        """At most one block a parameter."""
        checked_below("rank", rank, self.world_size)
        counted = accumulate(self.numels, initial=0)
        return joined(
            replace(piece, start=before + piece.start)
            for index, before in zip(range(len(self.shapes)), counted, strict=False)
            for piece in self.piece(index, rank)
        )

    def bucket_of(self, index: int) -> tuple[int, int]:
        """Start and end of the bucket that parameter number `index` lies in."""
        number = self.numbers[checked_below("parameter", index, len(self.shapes))]
        return self.edges[number], self.edges[number + 1]

    def piece(self, index: int, rank: int) -> tuple[Run, ...]:
        """The part of parameter number `index` in the rank's storage, counted from the parameter's own start."""
        low, high = self.bucket_of(index)
        return normal(share_of(low, high, self.starts[index], self.numels[index], self.world_size, rank))


@dataclass(frozen=True, slots=True)
class InBucket:
    """One parameter of a `Bucketed` buffer: each rank's shard is the part that lies in its share, without gaps.

    A gather moves the whole bucket: `padded_numel` is the bucket's length. Raises ValueError for an index that the
    buffer does not have.
    """

    buffer: Bucketed
    index: int

    kind: ClassVar[str] = "bucket"
    owes: ClassVar[frozenset[str]] = laws.OWED_BY_ALL | {
        laws.OWNED_EXACTLY_ONCE,
        laws.ORDER_KEPT,
        laws.BUCKETS_DIVISIBLE,
        laws.BUCKETS_TILE,
    }

    def __post_init__(self) -> None:
        """Check and keep a plain int."""
        object.__setattr__(self, "index", checked_below("parameter", self.index, len(self.buffer.shapes)))

    @property
    def shape(self) -> tuple[int, ...]:
        """The parameter's logical shape."""
        return self.buffer.shapes[self.index]

    @property
    def numel(self) -> int:
        """Elements of the logical shape."""
        return prod(self.shape)

    @property
    def world_size(self) -> int:
        """Ranks the buffer is spread over."""
        return self.buffer.world_size

    @property
    def padded_numel(self) -> int:
        """The length of the parameter's bucket."""
        low, high = self.buffer.bucket_of(self.index)
        return high - low

    def shard_numel(self, rank: int) -> int:
        """Elements of the parameter in the rank's share."""
        return sum(run.numel for run in self.runs(rank))

    def owned(self, rank: int) -> int:
        """The same: gaps belong to the buffer, not to a parameter."""
        return self.shard_numel(rank)

    def runs(self, rank: int) -> tuple[Run, ...]:
        """One block, or none."""
        checked_below("rank", rank, self.world_size)
        return tuple(replace(piece, local=0) for piece in self.buffer.piece(self.index, rank))


def _laid_out(buffer: Bucketed) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The parameters' starts, the buckets' edges, and each parameter's bucket."""
    divisor = lcm(buffer.world_size * buffer.alignment, buffer.bucket_alignment)
    starts, edges, numbers, used = [], [0], [], 0
    for numel in buffer.numels:
        start = align_up(used, buffer.parameter_alignment)
        held = used - edges[-1]
        full = buffer.bucket_least is not None and held >= buffer.bucket_least
        if full or (buffer.bucket_numel is not None and held and start + numel - edges[-1] > buffer.bucket_numel):
            edges.append(align_up(used, divisor))
            start = align_up(edges[-1], buffer.parameter_alignment)
        starts.append(start)
        numbers.append(len(edges) - 1)
        used = start + numel
    return tuple(starts), (*edges, align_up(used, divisor)), tuple(numbers)
