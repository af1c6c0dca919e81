"""Hypothesis strategies for cases.

Every decision is one draw of an index into a table, because a draw is what costs, and every table starts with what is
simplest, because an index shrinks towards 0. No two tables of a case share indices: Hypothesis would copy choices
between draws that look the same, and most cases would be near-copies of few.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from hypothesis import strategies as st

from reference import DTYPES
from shardproof.backends import CARRIES, REDUCES
from shardproof.case import Case, Delay, Divergence, GradBuffer, Group, LayoutSpec, Operation, Parameter
from shardproof.contents import TRAINING, grad_dtype
from shardproof.layouts import KINDS, fits, least_dims
from shardproof.programs import Segment, program, segments
from shardproof.sizes import Form, forms, numels

if TYPE_CHECKING:
    from shardproof.engine import Description

Item = TypeVar("Item")
Draw = Callable[[st.SearchStrategy[int]], int]

# How often each world size is drawn, against 1 for those that are not named: small worlds are quick and find most.
_WEIGHTS = {1: 3, 2: 8, 3: 6, 4: 5}
_SLOTS = 6
# What trains holds numbers in place of bit patterns, so that most cases do not.
_TRAINS = (False, False, False, True, True)
_MOST_PARAMETERS = 3
# Of 64 cases, how many have one rank that differs at registration, one that is late, or a size that none can hold.
_DIVERGENT, _DELAYED, _VAST = 8, 8, 2
# Past every limit of 32 bits, and past those of a float that counts.
_VAST_NUMELS = (2**31 + 1, 2**32 + 1, 2**53 + 1, 2**61 + 1, 2**62 - 1)

# What other layouts claim depends on more than a numel, and is asked for in every case: it costs no collective.
_CUT_ONCE = ("flat_padded", "chunk")

_DTYPE_WEIGHTS = {"float32": 8, "bfloat16": 4, "float16": 2}


def cases(
    description: Description, world_sizes: Collection[int] = range(1, 9), *, pool_size: int = 8
) -> st.SearchStrategy[Case]:
    """Cases that this implementation can be asked to run, at these world sizes, on a pool of so many ranks.

    Raises ValueError for no world size, or one that the pool has not ranks enough for.
    """
    if not world_sizes or not 1 <= min(world_sizes) <= max(world_sizes) <= pool_size:
        raise ValueError(f"world sizes: observed {sorted(world_sizes)}, expected some, from 1 to {pool_size}")
    return _case(_tables(description, sorted(set(world_sizes)), pool_size))


@dataclass(frozen=True, slots=True)
class _Tables:
    """What there is to choose from for one implementation."""

    world_sizes: tuple[int, ...]
    placements: dict[int, tuple[tuple[int, ...], ...]]
    layouts: dict[int, tuple[tuple[LayoutSpec, ...], ...]]
    dtypes: tuple[str, ...]
    gradient_dtypes: frozenset[str]
    traits: tuple[_Trait | None, ...]
    segments: tuple[Segment | None, ...]
    training: tuple[Segment | None, ...]
    divergences: tuple[_Differs, ...]
    vast: tuple[int, ...]
    elsewhere: tuple[int, ...]
    asks_layout: bool


def _tables(description: Description, world_sizes: Sequence[int], pool_size: int) -> _Tables:
    whole_pool, carried = description.needs_default_group, CARRIES[description.backend]
    names = (*_DTYPE_WEIGHTS, *(name for name in DTYPES if name not in _DTYPE_WEIGHTS))
    weighted = _weighted({size: _WEIGHTS.get(size, 1) for size in world_sizes})
    elsewhere = () if whole_pool else weighted
    gradients = frozenset(name for name in REDUCES[description.backend] if DTYPES[name].kind == "float")
    session = description.form == "session"
    found = segments(description.offers, means=session, elsewhere=len(set(elsewhere)) > 1)
    training = tuple(segment for segment in found if any(move.kind in TRAINING for move in segment))
    moving = tuple(segment for segment in found if segment not in training)
    divergent = _DIVERGENCES if "register" in description.offers else ()
    return _Tables(
        world_sizes=weighted,
        placements={size: _placements(size, size if whole_pool else pool_size) for size in world_sizes},
        layouts={size: _layouts(description, size) for size in world_sizes},
        dtypes=_weighted({name: _DTYPE_WEIGHTS.get(name, 1) for name in names if name in carried}),
        gradient_dtypes=gradients,
        traits=(None,) * (len(_TRAITS) // 2) + (_TRAITS if session else tuple(t for t in _TRAITS if t is not _tied)),
        segments=(None,) * (len(moving) // 2) + moving,
        training=(None,) * (len(moving) // 2) + moving + 2 * training if training else (),
        divergences=divergent,
        vast=_VAST_NUMELS if "layout" in description.offers else (),
        elsewhere=elsewhere,
        asks_layout="layout" in description.offers,
    )


def _weighted(weights: dict[Item, int]) -> tuple[Item, ...]:
    """Every item once, in order, then the repetitions: a repeated item shrinks to its first place."""
    return (*weights, *(item for item, weight in weights.items() for _ in range(weight - 1)))


def _placements(world_size: int, pool_size: int) -> tuple[tuple[int, ...], ...]:
    """Where in the pool the group lies; where there is room, half of the groups do not start at rank 0."""
    starts = (0, pool_size - world_size, 0, 1) if world_size < pool_size else (0,)
    return tuple(tuple(range(start, start + world_size)) for start in starts)


def _layouts(description: Description, world_size: int) -> tuple[tuple[LayoutSpec, ...], ...]:
    """Tables of layouts, one for those that cut a parameter once and one for each other kind, or just what is named."""
    if description.specs:
        return (tuple(spec for spec in description.specs if fits(spec, world_size)),)
    alignments = sorted(description.alignments)
    once: list[LayoutSpec] = []
    if "flat_padded" in description.layouts:
        aligned = [LayoutSpec(alignment=alignment) for alignment in alignments]
        once += [aligned[0]] * len(aligned) + aligned[1:]
    if "chunk" in description.layouts:
        once += [LayoutSpec(kind="chunk", dim=dim) for dim in (0, 0, 1, 2)]
    tables = [once, *(_SPECS[kind](world_size, alignments) for kind in _SPECS if kind in description.layouts)]
    found = tuple(tuple(table) for table in tables if table)
    if not found:
        raise ValueError(f"layouts: observed {description.layouts}, expected some of {', '.join(KINDS)}")
    return found


def simplest_layout(description: Description, world_size: int) -> LayoutSpec:
    """The first layout that is drawn at this world size."""
    return _layouts(description, world_size)[0][0]


def _divisors(number: int) -> list[int]:
    return [low for low in range(1, number + 1) if number % low == 0]


def _buckets(_: int, alignments: Sequence[int]) -> list[LayoutSpec]:
    """Caps that a few parameters reach, a bucket for each most often; Megatron-Core's roundings are among them."""
    roundings = [(1, 1, alignment) for alignment in alignments]
    others = ((2, 1), (1, 3), (64, 1), (1, 8), (3, 2), (4, 8), (64, 128), (2, 1), (64, 1), (3, 2))
    roundings += [(*rounding, alignments[0]) for rounding in others]
    return [
        LayoutSpec("bucket", alignment, 0, cap, start, end)
        for cap in (None, 1, 1, 4, 16, 100)
        for start, end, alignment in roundings
    ]


def _groups(world_size: int, alignments: Sequence[int]) -> list[LayoutSpec]:
    sizes = _divisors(world_size)
    return [LayoutSpec("grouped", alignment, group_size=size) for alignment in alignments for size in sizes]


def _chunked_groups(world_size: int, _: Sequence[int]) -> list[LayoutSpec]:
    """By rows most often, as `chunk` is."""
    sizes = _divisors(world_size)
    return [LayoutSpec("grouped_chunk", dim=dim, group_size=size) for dim in (0, 0, 1) for size in sizes]


def _meshes(world_size: int, alignments: Sequence[int]) -> list[LayoutSpec]:
    meshes = [(world_size // tensor, tensor) for tensor in _divisors(world_size)]
    return [
        LayoutSpec("two_dimensional", alignment, dim, mesh=mesh)
        for dim in (0, 1)
        for alignment in alignments
        for mesh in meshes
    ]


# Units that are never split: single elements, equal ones, and rows of two lengths.
_UNITS = ((1,), (2,), (3,), (4,), (7,), (1, 2), (3, 1), (5, 2, 1), (16,))
_SPECS: dict[str, Callable[[int, Sequence[int]], list[LayoutSpec]]] = {
    "bucket": _buckets,
    "ragged": lambda _, __: [LayoutSpec("ragged", units=units) for units in _UNITS],
    "grouped": _groups,
    "grouped_chunk": _chunked_groups,
    "two_dimensional": _meshes,
}


@lru_cache(maxsize=1024)
def _index(name: str, size: int) -> st.SearchStrategy[int]:
    """An index below `size`, as a number that belongs to this decision alone.

    The numbers are far from those in anybody's source text, which Hypothesis would prefer.
    """
    first = _FAR * (1 + zlib.crc32(name.encode()))
    return st.sampled_from(range(first, first + size))


_FAR = 10**7


def _pick(draw: Draw, name: str, table: Sequence[Item]) -> Item:
    """One item of the table; a table of one item costs no draw."""
    return table[draw(_index(name, len(table))) % _FAR] if len(table) > 1 else table[0]


def _seldom(draw: Draw, name: str, items: Sequence[Item], of_64: int) -> Item | None:
    """One of the items in so many of 64 draws, else None. Two draws: from a long table Hypothesis prefers the front."""
    if not items or not _pick(draw, f"any {name}", (False,) * (64 - of_64) + (True,) * of_64):
        return None
    return _pick(draw, name, items)


@st.composite
def _case(draw: Draw, tables: _Tables) -> Case:
    world_size = _pick(draw, "world size", tables.world_sizes)
    # Early: in Hypothesis' first cases, what is drawn late is mostly the front of its table.
    differs = _seldom(draw, "divergence", tables.divergences if world_size > 1 else (), _DIVERGENT)
    ranks = _pick(draw, "placement", tables.placements[world_size])
    family = _pick(draw, "layout family", tables.layouts[world_size])
    layout = _pick(draw, "layout", family)
    vast = _seldom(draw, "vast", tables.vast, _VAST)
    if vast is not None and layout.dim == 0:
        return Case((Group("main", ranks),), (Parameter("p0", (vast,)),), (Operation("layout"),), layout)
    parameters = _parameters(draw, tables, world_size, layout)
    main = Group("main", ranks)
    if differs is not None:
        if differs is _order:
            parameters = _all_alike(parameters)
        # What follows a refusal is never performed, and after a wrong acceptance it would hang.
        divergences = _divergence(draw, differs, world_size, parameters, least_dims(layout))
        return Case((main,), parameters, (Operation("register"),), layout, divergences)
    others = [size for size in tables.elsewhere if size != world_size and fits(layout, size)]
    operations = _operations(draw, tables, parameters, elsewhere=bool(others))
    if tables.asks_layout and layout.kind not in _CUT_ONCE:
        operations = (operations[0], Operation("layout"), *operations[1:])
    groups = [main]
    if any(operation.group == "other" for operation in operations):
        groups.append(Group("other", tuple(range(_pick(draw, "other world size", others)))))
    return Case(
        tuple(groups),
        parameters,
        operations,
        layout,
        delays=_delays(draw, world_size, operations),
        seed=_pick(draw, "seed", range(8)),
    )


def _operations(
    draw: Draw, tables: _Tables, parameters: Sequence[Parameter], *, elsewhere: bool
) -> tuple[Operation, ...]:
    """A fixed number of slots, each of which may stay empty: shrinking empties one without moving the others.

    Where there is no other world size that the layout fits, what would be loaded there is loaded here.
    """
    trains = _pick(draw, "training", _TRAINS) if tables.training else False
    if trains:
        chosen = [_pick(draw, f"training segment {slot}", tables.training) for slot in range(_SLOTS)]
    else:
        chosen = [_pick(draw, f"segment {slot}", tables.segments) for slot in range(_SLOTS)]
    if tables.elsewhere and not elsewhere:
        chosen = [segment and tuple(replace(move, elsewhere=False) for move in segment) for segment in chosen]
    ids = [parameter.id for parameter in parameters]
    with_gradient = [p.id for p in parameters if not p.frozen and p.tied_to is None]
    apart = [p.id for p in parameters if grad_dtype(p) != p.dtype]
    return program([segment for segment in chosen if segment is not None], ids, with_gradient, apart)


def _parameters(draw: Draw, tables: _Tables, world_size: int, layout: LayoutSpec) -> tuple[Parameter, ...]:
    """One to three, then a draw that says "no more"; in the first place that is a plain vector.

    So the draws of one parameter can be left out, and what follows stays in line.
    """
    shapes = forms(least_dims(layout))
    no_more_or = (None,) * (len(shapes) // 3) + shapes
    found: list[Parameter] = []
    while True:
        form = _pick(draw, f"form {len(found)}", no_more_or)
        if found and (form is None or len(found) == _MOST_PARAMETERS):
            return tuple(found)
        # Parameters of one dtype share a buffer of buckets.
        dtypes = (found[0].dtype,) * len(tables.dtypes) if found and layout.kind == "bucket" else ()
        found.append(_parameter(draw, (*dtypes, *tables.dtypes), tables, form or shapes[0], world_size, found))


def _parameter(
    draw: Draw,
    dtypes: Sequence[str],
    tables: _Tables,
    form: Form,
    world_size: int,
    earlier: Sequence[Parameter],
) -> Parameter:
    slot = len(earlier)
    shape = form(_pick(draw, f"numel {slot}", numels(world_size)))
    dtype = _pick(draw, f"dtype {slot}", dtypes)
    trait = _pick(draw, f"trait {slot}", tables.traits)
    # Nothing adds complex or very narrow numbers over ranks, and torch has no gradients of whole numbers.
    plain = Parameter(f"p{len(earlier)}", shape, dtype, frozen=dtype not in tables.gradient_dtypes)
    return trait(plain, earlier) if trait else plain


_Trait = Callable[[Parameter, Sequence[Parameter]], Parameter]


def _alone(change: Callable[[Parameter], Parameter]) -> _Trait:
    """A trait that does not depend on the parameters drawn before."""
    return lambda p, _: change(p)


def _transposed(p: Parameter) -> Parameter:
    """The same memory read with its dimensions in reverse."""
    if len(p.shape) < 2:
        return _columns(p)
    strides, step = [], 1
    for size in p.shape:
        strides.append(step)
        step *= max(size, 1)
    return replace(p, strides=tuple(strides))


def _columns(p: Parameter) -> Parameter:
    """Some columns of a wider matrix: every other element of rows twice as long and one more."""
    if not p.shape:
        return replace(p, storage_offset=1)
    strides, step = [2], 2 * max(p.shape[-1], 1) + 1
    for size in reversed(p.shape[:-1]):
        strides.insert(0, step)
        step *= max(size, 1)
    return replace(p, strides=tuple(strides))


def _grad_buffer(kind: GradBuffer) -> _Trait:
    return _alone(lambda p: p if p.frozen else replace(p, grad_buffer=kind))


def _tied(p: Parameter, earlier: Sequence[Parameter]) -> Parameter:
    """Another name of the first parameter, where there is one."""
    return replace(earlier[0], id=p.id, tied_to=earlier[0].id) if earlier else p


def _alike(p: Parameter, earlier: Sequence[Parameter]) -> Parameter:
    """As many elements as the first parameter, where there is one: only its dtype can tell them apart."""
    return replace(p, shape=earlier[0].shape) if earlier else p


_TRAITS: tuple[_Trait, ...] = (
    _alone(lambda p: replace(p, storage_offset=1)),
    _alone(lambda p: replace(p, storage_offset=3)),
    _alone(_transposed),
    _alone(_columns),
    _alone(lambda p: replace(_transposed(p), storage_offset=1)),
    _alone(lambda p: replace(p, frozen=True)),
    _grad_buffer("absent"),
    _grad_buffer("partition"),
    # Gradients of a half-precision parameter kept in float32, and those of a float32 parameter sent in half of it.
    _alone(lambda p: replace(p, dtype="bfloat16", grad_dtype="float32", frozen=False)),
    _alone(lambda p: replace(p, dtype="float32", comm_dtype="bfloat16", frozen=False)),
    _tied,
    _alike,
    # Again, because it takes a second parameter, and what goes wrong with it often takes a certain program as well.
    _tied,
    _tied,
    _tied,
)


def _delays(draw: Draw, world_size: int, operations: Sequence[Operation]) -> tuple[Delay, ...]:
    milliseconds = _seldom(draw, "delay", (2,), _DELAYED)
    if milliseconds is None:
        return ()
    rank = _pick(draw, "late rank", range(world_size))
    at = _pick(draw, "delayed operation", range(len(operations)))
    return (Delay(rank, at, milliseconds),)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a divergence is: one rank, and one of the case's parameters."""

    rank: int
    parameter: Parameter
    parameters: Sequence[Parameter]
    least_dims: int


_Differs = Callable[[Draw, _Place], Divergence]


def _divergence(
    draw: Draw, differs: _Differs, world_size: int, parameters: Sequence[Parameter], least_dims: int
) -> tuple[Divergence, ...]:
    """A divergence on a drawn rank, the last rank first: that one owns the padding. A shard may be wrong everywhere."""
    rank = _pick(draw, "divergent rank", range(world_size - 1, -1, -1))
    one = differs(draw, _Place(rank, _pick(draw, "divergent parameter", parameters), parameters, least_dims))
    if one.kind == "shard_numel" and _pick(draw, "everywhere", (False, True)):
        return tuple(replace(one, rank=rank) for rank in range(world_size))
    return (one,)


def _shape(draw: Draw, at: _Place) -> Divergence:
    """One element more or one fewer."""
    p = at.parameter
    longer = (p.numel + 1,) if len(p.shape) < 2 else (*p.shape[:-1], p.shape[-1] + 1)
    shorter = (max(p.numel - 1, 0), *[1] * (at.least_dims - 1))
    others = [shape for shape in (longer, shorter) if shape != p.shape]
    return Divergence(at.rank, "shape", p.id, _pick(draw, "other shape", others))


def _form(draw: Draw, at: _Place) -> Divergence:
    """As many elements in another shape: one dimension more, or the dimensions in reverse."""
    p = at.parameter
    others = [shape for shape in ((1, *p.shape), p.shape[::-1]) if shape != p.shape]
    return Divergence(at.rank, "shape", p.id, _pick(draw, "other form", others))


def _dtype(draw: Draw, at: _Place) -> Divergence:
    """Another dtype, one of the same size among them, which only a comparison of dtypes can tell."""
    others = [name for name in ("int32", "float32", "bfloat16", "float16") if name != at.parameter.dtype]
    return Divergence(at.rank, "dtype", at.parameter.id, _pick(draw, "other dtype", others))


def _shard(draw: Draw, at: _Place) -> Divergence:
    """A longer shard. A tied parameter has none of its own."""
    id = at.parameter.tied_to or at.parameter.id
    return Divergence(at.rank, "shard_numel", id, _pick(draw, "shard difference", (1, 2, 64)))


def _order(_: Draw, at: _Place) -> Divergence:
    """Another order of parameters that are all alike: only their ids can tell."""
    return Divergence(at.rank, "order")


def _all_alike(parameters: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """As many parameters, two at least, that differ in nothing but their ids."""
    return tuple(replace(parameters[0], id=f"p{slot}") for slot in range(max(2, len(parameters))))


def _id(_: Draw, at: _Place) -> Divergence:
    return Divergence(at.rank, "id", at.parameter.id, f"{at.parameter.id}-elsewhere")


def _missing(_: Draw, at: _Place) -> Divergence:
    return Divergence(at.rank, "missing", at.parameter.id)


def _extra(_: Draw, at: _Place) -> Divergence:
    return Divergence(at.rank, "extra", value=(3, *[1] * (at.least_dims - 1)))


def _refuses(_: Draw, at: _Place) -> Divergence:
    return Divergence(at.rank, "refuses")


# A check that looks at too little lets one of these pass and none of the others. A wrong shard is wrong on one rank or
# on all, each of which hides from the other's check. An order of parameters that are alike shows what other ids show,
# and a shape of equal numel what another numel does: those two come seldom.
_DIVERGENCES: tuple[_Differs, ...] = (
    _shape,
    *(_form,) * 4,
    *(_dtype,) * 4,
    *(_shard,) * 8,
    *(_order,) * 4,
    _id,
    *(_missing,) * 2,
    *(_extra,) * 2,
    *(_refuses,) * 4,
)
