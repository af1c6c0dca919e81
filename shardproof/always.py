"""Small cases that every search tries early, in turn, because each shows what no other does and is drawn too seldom.

A registration check that looks at too little lets one kind of difference between ranks pass and refuses all others.
Drawn at random, seven kinds need a fifth of all cases to show within the first 25; in turn, they need seven cases. The
same holds for what needs two things at once: two dtypes in buffers of one length, a gradient buffer of another size,
two prefetches under way, an empty parameter beside others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from shardproof.backends import CARRIES
from shardproof.case import Case, Delay, Divergence, Group, LayoutSpec, Operation, Parameter
from shardproof.layouts import fits, least_dims
from shardproof.strategies import simplest_layout

if TYPE_CHECKING:
    from shardproof.engine import Description

# So many after each drawn case, until each was tried.
AT_ONCE = 2
# Past what a float counts exactly and past every 32 bits, and no multiple of a small world size.
_VAST = Parameter("p0", (2**61 + 1,))
_SHAPE = (2, 3)
_ONE, _TWO = (Parameter("p0", _SHAPE),), (Parameter("p0", _SHAPE), Parameter("p1", _SHAPE))

# What a program acts on: parameters that two ranks cannot share evenly, alike but for what the case is about.
_DTYPES = (Parameter("p0", (3,), "float64"), Parameter("p1", (3,)), Parameter("p2", (3,), "bfloat16"))
_EMPTY = (Parameter("p0", (1, 0)), Parameter("p1", (0,)), Parameter("p2", (3,)))
_SEVERAL = (Parameter("p0", (3,)), Parameter("p1", (5,)), Parameter("p2", (1,)))
_SCALAR = (Parameter("p0", ()),)
_STRIDED = (Parameter("p0", (2, 3), strides=(1, 2), storage_offset=1), Parameter("p1", (5,), strides=(2,)))
_GRADIENTS = (
    Parameter("p0", (3,), grad_buffer="partition"),
    Parameter("p1", (5,), grad_buffer="absent"),
    Parameter("p2", (67,)),
    Parameter("p3", (1,)),
    Parameter("p4", (2,)),
    Parameter("p5", (3,), tied_to="p0", grad_buffer="partition"),
)
_WIDENED = (
    Parameter("p0", (3,), "bfloat16", grad_dtype="float32"),
    Parameter("p1", (5,), comm_dtype="bfloat16"),
)
_TRAINED = (Parameter("p0", (3,)), Parameter("p1", (1,)), Parameter("p2", (3,), tied_to="p0"))

# Zeros at an end, of which half of all booleans are, must not be taken for padding.
_SAVED = (*_SEVERAL, *(Parameter(f"p{at}", (at,), "bool") for at in (3, 4, 5)))
_ROWS = (Parameter("p0", (3, 2)), Parameter("p1", (1, 1)), Parameter("p2", (1, 2)))

# Parameters and what is done with them. "elsewhere" is at another world size, "late" comes later on the last rank.
_PROGRAMS: tuple[tuple[tuple[Parameter, ...], str], ...] = (
    (_GRADIENTS, "gather; reduce; norm; accumulate; accumulate p0; mean; norm"),
    (_DTYPES, "gather p0; release p0; gather p1; release p1; gather p2; gather; use"),
    (
        _SEVERAL,
        "prefetch p0; prefetch p1; prefetch p2; wait; use; release; prefetch p1 p0; wait p0 p1; update; gather",
    ),
    (_ONE, "prefetch late; wait"),
    (_EMPTY, "gather; save; update; gather; load; gather; release"),
    (_WIDENED, "reduce; norm"),
    (_TRAINED, "accumulate; forward; backward; norm; clip; norm; step; save; load; forward; backward; step; gather"),
    (_STRIDED, "gather"),
    (_SCALAR, "gather; save; load; gather"),
    (_SAVED, "update; save; load elsewhere; gather elsewhere; save elsewhere"),
)
_LATE, _RATE, _BOUND = 2, 5, 2  # milliseconds of a delay, 2^-5 of a step, the largest norm after a clip


def _other_layouts(kinds: Collection[str], size: int, alignment: int) -> Iterator[LayoutSpec]:
    """What can be wrong in a layout that says more than one length: buckets apart, ranks in groups, rows of ranks."""
    if "bucket" in kinds:
        yield LayoutSpec("bucket", bucket_numel=1, parameter_alignment=64)
        yield LayoutSpec("bucket", bucket_numel=1, bucket_alignment=3 if size % 3 else 8)
    if "grouped" in kinds:
        yield LayoutSpec("grouped", alignment, group_size=size)
        yield LayoutSpec("grouped", group_size=1)
    if "grouped_chunk" in kinds:
        yield LayoutSpec("grouped_chunk", group_size=size)
        yield LayoutSpec("grouped_chunk", dim=1, group_size=1)
    if "two_dimensional" in kinds:
        yield LayoutSpec("two_dimensional", alignment, mesh=(1, size))
        yield LayoutSpec("two_dimensional", dim=1, mesh=(size, 1))
    if "ragged" in kinds:
        yield LayoutSpec("ragged", units=(5, 2, 1))


def always(description: Description, world_sizes: Collection[int]) -> tuple[Case, ...]:
    """Each kind of registration that must be refused, programs that show much, and a layout of what none can hold.

    As far as they are offered; at the smallest world size in which ranks can differ, else at the smallest.
    """
    size = min((size for size in world_sizes if size > 1), default=min(world_sizes))
    layout, main = simplest_layout(description, size), Group("main", tuple(range(size)))
    others: Iterable[LayoutSpec] = description.specs[1:]
    if not description.specs:
        others = _other_layouts(description.layouts, size, max(description.alignments))
    otherwise = (Case((main,), _ROWS, program("layout; gather; save; load; gather"), other) for other in others)
    shown = [*otherwise, *_shown(description, main, layout, world_sizes)]
    refused = list(_refusals((main,), layout)) if size > 1 and "register" in description.offers else []
    if "layout" in description.offers and least_dims(layout) < 2:
        refused.insert(2, Case((main,), (_VAST,), (Operation("layout"),), layout))
    both = chain.from_iterable(zip_longest((case for case in shown if _can_be_asked(description, case)), refused))
    return tuple(case for case in both if case is not None)


def _shown(description: Description, main: Group, layout: LayoutSpec, world_sizes: Collection[int]) -> Iterator[Case]:
    """Every program, with the largest other world size where one is needed."""
    size = len(main.ranks)
    others = [other for other in sorted(world_sizes) if other != size and fits(layout, other)]
    elsewhere = [] if description.needs_default_group else others
    for parameters, words in _PROGRAMS:
        groups, late = [main], [at for at, part in enumerate(words.split("; "), 1) if part.endswith("late")]
        if "elsewhere" in words and elsewhere:
            groups.append(Group("other", tuple(range(elsewhere[-1]))))
        if "elsewhere" not in words or elsewhere:
            delays = tuple(Delay(size - 1, at, _LATE) for at in late)
            yield Case(tuple(groups), parameters, program(words), layout, delays=delays)


def _can_be_asked(description: Description, case: Case) -> bool:
    """Whether an implementation offers all that the case asks for, and its backend has the dtypes."""
    kinds = {operation.kind for operation in case.program} - {"register"}
    tied = any(parameter.tied_to for parameter in case.parameters)
    dims = min(len(parameter.shape) for parameter in case.parameters)
    return (
        kinds <= set(description.offers)
        and not (tied and description.form != "session")
        and dims >= least_dims(case.layout)
        and all(parameter.dtype in CARRIES[description.backend] for parameter in case.parameters)
    )


def program(words: str) -> tuple[Operation, ...]:
    """The operations that a line of the table names, after a registration."""
    return (Operation("register"), *(_operation(part.split(), at) for at, part in enumerate(words.split("; "), 1)))


def _operation(words: list[str], at: int) -> Operation:
    kind, ids = words[0], tuple(word for word in words[1:] if word not in ("elsewhere", "late"))
    group = "other" if "elsewhere" in words else "main"
    value = {"forward": at, "step": _RATE, "clip": _BOUND}.get(kind, 0)
    if kind == "mean":
        return Operation("reduce", ids, group, value, "mean")
    return Operation(kind, ids, group, value)  # type: ignore[arg-type]  # a kind: every line is run by a test


def _refusals(main: tuple[Group, ...], layout: LayoutSpec) -> tuple[Case, ...]:
    """Parameters that are alike differ in order by their ids alone; a shape turned round, by nothing but itself."""
    ranks = range(len(main[0].ranks))
    last = ranks[-1]
    kinds = (
        (_ONE, (Divergence(last, "dtype", "p0", "int32"),)),
        (_ONE, (Divergence(last, "shape", "p0", _SHAPE[::-1]),)),
        (_TWO, (Divergence(last, "order"),)),
        (_ONE, (Divergence(last, "refuses"),)),
        (_ONE, (Divergence(last, "shard_numel", "p0", 1),)),
        (_ONE, tuple(Divergence(rank, "shard_numel", "p0", 1) for rank in ranks)),
        (_TWO, (Divergence(last, "missing", "p1"),)),
    )
    return tuple(Case(main, parameters, (Operation("register"),), layout, differ) for parameters, differ in kinds)
