"""A case is data: what the ranks are given and what they do, frozen and JSON-able.

A case says everything a run needs: which pool ranks form which group, the parameters, the layout, how one rank
differs, what is delayed, and the program that every rank performs. The same case gives the same run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Literal, get_args

VERSION = 1

OperationKind = Literal[
    "register",
    "layout",
    "gather",
    "prefetch",
    "wait",
    "use",
    "invalidate",
    "release",
    "update",
    "accumulate",
    "reduce",
    "norm",
    "save",
    "load",
    "forward",
    "backward",
    "clip",
    "step",
]
OPERATIONS: tuple[OperationKind, ...] = get_args(OperationKind)
LayoutKind = Literal["flat_padded", "chunk", "bucket", "ragged", "grouped", "grouped_chunk", "two_dimensional"]
GradBuffer = Literal["full", "partition", "absent"]
DivergenceKind = Literal["shape", "dtype", "id", "order", "shard_numel", "extra", "missing", "refuses"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter as every rank is meant to have it.

    `strides` are in elements (None: row-major) and `storage_offset` counts elements before the first one.
    `grad_buffer` is what lies in the gradient's place at registration: a full-size buffer, one of a shard's
    length, or nothing. `grad_dtype` and `comm_dtype` default to `dtype`.
    """

    id: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    strides: tuple[int, ...] | None = None
    storage_offset: int = 0
    frozen: bool = False
    tied_to: str | None = None
    grad_buffer: GradBuffer = "full"
    grad_dtype: str | None = None
    comm_dtype: str | None = None

    @property
    def numel(self) -> int:
        """Elements of the parameter's true shape (1 for a scalar)."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class LayoutSpec:
    """Which layout the parameters are cut by. Fields that a kind does not use keep their defaults.

    `alignment` rounds a shard's numel up (flat_padded, bucket). `dim` is the chunked dimension (chunk, grouped_chunk).
    `bucket_numel` caps a bucket, `bucket_least` ends one that holds as many; `parameter_alignment` and
    `bucket_alignment` round starts and ends (bucket).
    `units` are the lengths that are never split (ragged). `group_size` is the number of ranks that shard
    among themselves while groups replicate (grouped, grouped_chunk). `mesh` is (outer, inner) (two_dimensional).
    """

    kind: LayoutKind = "flat_padded"
    alignment: int = 1
    dim: int = 0
    bucket_numel: int | None = None
    parameter_alignment: int = 1
    bucket_alignment: int = 1
    units: tuple[int, ...] = ()
    group_size: int | None = None
    mesh: tuple[int, int] | None = None
    bucket_least: int | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """A process group: its name and the pool ranks that form it, in group order. "main" is the one under test."""

    name: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Divergence:
    """How one rank (counted inside the main group) differs at registration.

    kind         value
    shape        the shape that rank has instead
    dtype        the dtype that rank has instead
    id           the id that rank uses instead
    order        none: that rank registers the parameters in reverse order
    shard_numel  how many elements more (or, negative, fewer) that rank's shard stores
    extra        the shape of one more parameter that only that rank registers
    missing      none: that rank leaves `parameter` out
    refuses      none: that rank raises instead of registering
    """

    rank: int
    kind: DivergenceKind
    parameter: str | None = None
    value: int | str | tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Delay:
    """Rank `rank` of the main group sleeps before operation number `operation` of the program."""

    rank: int
    operation: int
    milliseconds: int


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation that every rank of `group` performs.

    `parameters` names what it acts on, in order (empty: all). `value` seeds new contents (update, accumulate,
    reduce, forward) and is the bound of a clip. `reduction` says how contributions combine (reduce, accumulate).
    A load names the group whose world size it loads at.
    """

    kind: OperationKind
    parameters: tuple[str, ...] = ()
    group: str = "main"
    value: int = 0
    reduction: Literal["sum", "mean"] = "sum"


@dataclass(frozen=True, slots=True)
class Case:
    """Everything one run needs. `seed` decides every tensor's contents."""

    groups: tuple[Group, ...]
    parameters: tuple[Parameter, ...]
    program: tuple[Operation, ...]
    layout: LayoutSpec = field(default_factory=LayoutSpec)
    divergences: tuple[Divergence, ...] = ()
    delays: tuple[Delay, ...] = ()
    seed: int = 0
    version: int = VERSION

    @property
    def main(self) -> Group:
        """The group under test."""
        return self.group("main")

    @property
    def world_size(self) -> int:
        """Ranks in the group under test."""
        return len(self.main.ranks)

    @property
    def pool_size(self) -> int:
        """Ranks a pool must hold to run this case."""
        return 1 + max(rank for group in self.groups for rank in group.ranks)

    def group(self, name: str) -> Group:
        """The group of that name."""
        return next(group for group in self.groups if group.name == name)

    def parameter(self, id: str) -> Parameter:
        """The parameter of that id."""
        return next(parameter for parameter in self.parameters if parameter.id == id)

    def acted_on(self, operation: Operation) -> tuple[str, ...]:
        """The ids that `operation` acts on, in order."""
        return operation.parameters or tuple(parameter.id for parameter in self.parameters)
