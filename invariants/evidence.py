"""What was seen: the only thing a law ever looks at.

Everything here is plain data, built by the harness from what each rank reported and from what the model says.
A rank is counted inside the group that performed the step. Bits are raw bytes, little-endian, in the row-major
order of the logical elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from reference import Layout, Run

Outcome = Literal["done", "refused", "raised", "lost"]
Wanted = Literal["accept", "refuse", "unspecified"]


@dataclass(frozen=True, slots=True)
class Seen:
    """A tensor as one rank saw it: its logical `bits`, and where it lies.

    `strides` and `offset` count elements. `storage` identifies the memory behind it within one rank and one run;
    `storage_nbytes` is that memory's whole size.
    """

    dtype: str
    shape: tuple[int, ...]
    bits: bytes
    device: str = "cpu"
    strides: tuple[int, ...] = ()
    offset: int = 0
    storage: int = 0
    storage_nbytes: int = 0


@dataclass(frozen=True, slots=True)
class Buffer:
    """One operand of a collective. `offset` counts elements from the start of `storage`."""

    numel: int
    dtype: str
    contiguous: bool
    storage: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """One collective as it was issued: `op` is one of all_gather, reduce_scatter, all_reduce, broadcast, other.

    A coalesced call has several sends and receives. `group` are the ranks that take part in it, counted inside the
    group that performed the step; empty: all of them.
    """

    op: str
    send: tuple[Buffer, ...]
    recv: tuple[Buffer, ...]
    group: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Cost:
    """What one operation did beyond its result, on one rank.

    Fresh tensors allocated and their bytes, tensor copies and their bytes, reads of a device value by the host.
    """

    calls: tuple[Call, ...] = ()
    allocations: int = 0
    allocated_bytes: int = 0
    copies: int = 0
    copied_bytes: int = 0
    syncs: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a parameter starts in a buffer of buckets, and where its bucket starts and ends there, in elements."""

    start: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Claim:
    """What the implementation says of its own layout for one parameter and rank. `runs` as in `reference.Run`.

    `place` is there only where parameters share a buffer of buckets.
    """

    shard_numel: int
    padded_numel: int
    runs: tuple[Run, ...]
    logical_shape: tuple[int, ...]
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """A result of an earlier gather, looked at again: is it still what it was?

    `gathered_at` is the step it came from. `first_wrong` is the first differing element, None where it is intact.
    `released` says whether the parameter was released since (after that only a promise keeps it).
    """

    parameter: str
    gathered_at: int
    released: bool
    first_wrong: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One operation as one rank performed it.

    outcome      done; refused (a register that raised); raised (any other error); lost (the rank hung, crashed or
                 exited during it)
    raised_at    where the error was raised: "file:line in function", outermost first, Shardproof's own frames left out
    results      what the operation returned, by parameter: gathered tensors (gather, wait), reduced shards
                 (reduce), shards (register, load), saved tensors (save)
    mutated      inputs the operation was given (shards, gradients) whose bytes it changed
    guards       inputs whose surrounding memory it changed
    held         results of earlier gathers, looked at after this operation
    freed        by parameter, after a release (and trim, where offered): is the gathered memory gone
    available    by parameter, what the implementation says of it after the operation
    warm         the same parameter went through this operation before in this run, so buffers exist already
    began        when the operation began, on a clock that all ranks share, with `seconds` on the same clock; None where
                 there is none (ranks on several hosts) or where operations are only enqueued (an accelerator)
    scalars      after a save or a load: the 0-dim state beside the parameters (an optimizer's step count), by name
    counters     what the implementation counts within one operation (elements in its reduce bucket), by name; what
                 it counts over a whole run does not belong here
    profile      the records that profiling this operation gave
    """

    index: int
    kind: str
    parameters: tuple[str, ...]
    rank: int
    world_size: int
    outcome: Outcome = "done"
    error: str = ""
    seconds: float = 0.0
    raised_at: tuple[str, ...] = ()
    results: Mapping[str, Seen] = field(default_factory=dict)
    mutated: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()
    held: tuple[Held, ...] = ()
    cost: Cost = Cost()
    claims: Mapping[str, Claim] = field(default_factory=dict)
    scalar: float | None = None
    freed: Mapping[str, bool] = field(default_factory=dict)
    available: Mapping[str, bool] = field(default_factory=dict)
    warm: bool = False
    began: float | None = None
    scalars: Mapping[str, float] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)
    profile: tuple[Mapping[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Expected:
    """What the model says of one step.

    `wanted` and its `reason` (and `link`) say whether the operation must be accepted. `results` are the bits every
    rank must see; `per_rank` replaces it where ranks see different things (reduced shards: padding included, as
    zeros). `scalar` is exact. `earlier` is what parameters held before they were written last, oldest first: what a
    stale copy still shows.

    Where training rounded, `room` says by parameter how far an element may be from the model's, and `scalar_room` how
    far the scalar; 0 and absent: not at all.
    """

    wanted: Wanted = "accept"
    reason: str = ""
    link: str = ""
    results: Mapping[str, bytes] = field(default_factory=dict)
    per_rank: tuple[Mapping[str, bytes], ...] = ()
    scalar: float | None = None
    earlier: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    room: Mapping[str, float] = field(default_factory=dict)
    scalar_room: float = 0.0

    def bits(self, parameter: str, rank: int) -> bytes | None:
        """The bits rank `rank` must see for `parameter`; None where the model does not say."""
        return (self.per_rank[rank] if self.per_rank else self.results).get(parameter)


@dataclass(frozen=True, slots=True)
class Subject:
    """One parameter and the model's layout of it at every world size that the program uses.

    `grad_dtype` is what reduced gradients come back in (None: `dtype`). `grad_buffer` is what lies in the gradient's
    place at registration.
    """

    id: str
    shape: tuple[int, ...]
    dtype: str
    layouts: Mapping[int, Layout]
    frozen: bool = False
    tied_to: str | None = None
    grad_dtype: str | None = None
    grad_buffer: Literal["full", "partition", "absent"] = "full"

    @property
    def root(self) -> str:
        """The id of the parameter whose memory this one uses: its own, or the one it is tied to."""
        return self.tied_to or self.id


@dataclass(frozen=True, slots=True)
class RankStory:
    """What became of one pool rank: every step it finished, and how it ended."""

    pool_rank: int
    ended: Literal["done", "raised", "exited", "signalled", "hung"]
    steps: tuple[Step, ...]
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One run of one case on all ranks, beside what the model says. `second` is the same case under other poison."""

    world_size: int
    subjects: Mapping[str, Subject]
    ranks: tuple[RankStory, ...]
    expected: tuple[Expected, ...]
    deadline: float = 10.0
    second: Evidence | None = None

    def steps(self, *kinds: str) -> Iterator[Step]:
        """Every step of these kinds (none: of any kind), rank by rank in program order."""
        for story in self.ranks:
            yield from (step for step in story.steps if not kinds or step.kind in kinds)

    def across(self, index: int) -> tuple[Step, ...]:
        """Step number `index` as each rank that performed it saw it, in group order."""
        found = [step for story in self.ranks for step in story.steps if step.index == index]
        return tuple(sorted(found, key=lambda step: step.rank))
