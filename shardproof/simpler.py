"""Simpler cases than a given one, each by one step that a person would try.

They know what a case is, which a shrinker of drawn choices does not: it stops where no single choice can be lowered,
often one step from a simpler case that it has no choice for, such as another way to gather.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from reference import DTYPES
from shardproof.case import Case, Divergence, Group, LayoutSpec, Parameter
from shardproof.case_rules import check
from shardproof.errors import UsageError
from shardproof.layouts import FIELDS, KINDS, NEEDS, REPLICATES


def size(case: Case) -> tuple[int, ...]:
    """By which of two cases is the simpler: operations, parameters, ranks, elements, and all that is not plain."""
    return (
        len(case.program),
        len(case.parameters),
        len(case.divergences) + len(case.delays) + len(case.groups),
        sum(len(group.ranks) for group in case.groups),
        # No element is odder than one.
        sum(parameter.numel or 2 for parameter in case.parameters),
        sum(_oddity(parameter) for parameter in case.parameters),
        sum(bool(o.parameters) + (o.group != "main") + (o.reduction != "sum") for o in case.program),
        _layout_oddity(case.layout),
        sum(parameter.storage_offset + sum(parameter.strides or ()) for parameter in case.parameters),
        sum(group.ranks[0] for group in case.groups) + case.seed,
        sum(old != new for old, new in _numbered(case).items()),
    )


def _numbered(case: Case) -> dict[str, str]:
    """The ids as they would be if parameters were numbered in order."""
    return {parameter.id: f"p{at}" for at, parameter in enumerate(case.parameters)}


def _oddity(p: Parameter) -> int:
    fields = (p.dtype != "float32", p.strides is not None, p.frozen, p.tied_to, p.grad_buffer != "full", p.grad_dtype)
    return sum(map(bool, (*fields, p.comm_dtype, p.storage_offset))) + abs(len(p.shape) - 1)


def _layout_oddity(spec: LayoutSpec) -> int:
    rounding = spec.alignment + spec.parameter_alignment + spec.bucket_alignment + (spec.bucket_numel or 0)
    rounding += spec.bucket_least or 0
    cut = 2 * spec.dim + sum(spec.units) + len(spec.units) + (spec.group_size or 0) + (spec.mesh or (0, 0))[1]
    return rounding + cut + (spec.kind != "flat_padded")


def simpler(
    case: Case, world_sizes: Collection[int], layouts: Collection[str] = KINDS, specs: Collection[LayoutSpec] = ()
) -> Iterator[Case]:
    """Valid cases that are simpler by one step, the largest steps first.

    With layouts of these kinds only and, where `specs` has any, with no others than those.
    """
    for candidate in _steps(case, world_sizes):
        if candidate.layout.kind not in layouts or (specs and candidate.layout not in specs):
            continue
        if size(candidate) < size(case) and _valid(candidate):
            yield candidate


def _valid(case: Case) -> bool:
    try:
        check(case)
    except UsageError:
        return False
    return True


def _steps(case: Case, world_sizes: Collection[int]) -> Iterator[Case]:
    yield from (_without_parameter(case, parameter) for parameter in case.parameters)
    yield from (_without_operation(case, index) for index in reversed(range(len(case.program))))
    yield from _without_prefetches(case)
    yield from _without_rounds(case)
    for name in ("divergences", "delays"):
        items = getattr(case, name)
        yield from (replace(case, **{name: items[:at] + items[at + 1 :]}) for at in range(len(items)))
    yield from _fewer_ranks(case, world_sizes)
    yield from _other_shapes(case)
    # What only parameters that are alike show is lost where one of them changes.
    yield replace(case, parameters=tuple(replace(p, shape=(1,), strides=None) for p in case.parameters))
    yield replace(case, seed=0)
    yield from (replace(case, layout=layout) for layout in _other_layouts(case.layout, case.world_size))
    for at, parameter in enumerate(case.parameters):
        for other in _parameter(parameter):
            yield replace(case, parameters=(*case.parameters[:at], other, *case.parameters[at + 1 :]))
    for at, operation in enumerate(case.program):
        for plain in (replace(operation, parameters=()), replace(operation, reduction="sum")):
            yield replace(case, program=(*case.program[:at], plain, *case.program[at + 1 :]))
    yield _renamed(case)


def _renamed(case: Case) -> Case:
    """Parameters numbered in order, which those that were left out had upset."""
    new = _numbered(case)
    return replace(
        case,
        parameters=tuple(
            replace(p, id=new[p.id], tied_to=new[p.tied_to] if p.tied_to else None) for p in case.parameters
        ),
        program=tuple(replace(o, parameters=tuple(new[id] for id in o.parameters)) for o in case.program),
        divergences=tuple(replace(d, parameter=new[d.parameter] if d.parameter else None) for d in case.divergences),
    )


def _without_parameter(case: Case, gone: Parameter) -> Case:
    """Operations on it alone go with it; what is tied to it stands for itself."""
    left = tuple(p for p in case.parameters if p.id != gone.id)
    program = []
    for operation in case.program:
        acted_on = tuple(id for id in case.acted_on(operation) if id != gone.id)
        if acted_on:
            everything = acted_on == tuple(p.id for p in left)
            program.append(replace(operation, parameters=() if everything else acted_on))
    return replace(
        case,
        parameters=tuple(replace(p, tied_to=None) if p.tied_to == gone.id else p for p in left),
        program=tuple(program),
        divergences=tuple(d for d in case.divergences if d.parameter != gone.id),
        delays=() if len(program) < len(case.program) else case.delays,
    )


def _without_operation(case: Case, index: int) -> Case:
    """Groups that no operation names go with it; operations after a load elsewhere follow back to the main group."""
    dropped = case.program[index]
    program = list(case.program[:index] + case.program[index + 1 :])
    if dropped.kind == "load":
        program[index:] = [replace(later, group="main") for later in program[index:]]
    used = {"main", *(operation.group for operation in program)}
    delays = [
        replace(delay, operation=delay.operation - (delay.operation > index))
        for delay in case.delays
        if delay.operation != index
    ]
    groups = tuple(group for group in case.groups if group.name in used)
    return replace(case, groups=groups, program=tuple(program), delays=tuple(delays))


def _without_prefetches(case: Case) -> Iterator[Case]:
    """Neither a prefetch nor its wait makes sense alone: both go, or a gather takes their place."""
    for start, operation in enumerate(case.program):
        if operation.kind == "prefetch":
            waits = [at for at, later in enumerate(case.program) if later.kind == "wait" and at > start]
            for end in waits:
                yield _without_operation(_without_operation(case, end), start)
                gather = replace(case.program[end], kind="gather")
                plain = replace(case, program=(*case.program[:end], gather, *case.program[end + 1 :]))
                yield _without_operation(plain, start)


def _without_rounds(case: Case) -> Iterator[Case]:
    """A forward, its backward, and what is done with the gradients until there are others: only all of it can go."""
    for start, operation in enumerate(case.program):
        if operation.kind in ("forward", "reduce"):
            rest = [(at, later.kind) for at, later in enumerate(case.program) if at > start]
            ends = (at for at, kind in rest if kind in ("forward", "reduce"))
            end = next(ends, len(case.program))
            fewer = case
            for at in (at for at, kind in reversed(rest) if at < end and kind in ("backward", "norm", "clip", "step")):
                fewer = _without_operation(fewer, at)
            yield _without_operation(fewer, start)


def _fewer_ranks(case: Case, world_sizes: Collection[int]) -> Iterator[Case]:
    """Each group smaller, and starting at rank 0; whoever was beyond the end is the last rank now."""
    for at, group in enumerate(case.groups):
        now = len(group.ranks)
        for ranks in [tuple(range(number)) for number in sorted(world_sizes) if number <= now]:
            groups = (*case.groups[:at], Group(group.name, ranks), *case.groups[at + 1 :])
            last = len(ranks) - 1 if group.name == "main" else case.world_size - 1
            fewer = replace(
                case,
                groups=groups,
                divergences=tuple(_at_most(divergence, last) for divergence in case.divergences),
                delays=tuple(replace(delay, rank=min(delay.rank, last)) for delay in case.delays),
            )
            yield from (replace(fewer, layout=layout) for layout in _on_ranks(case.layout, last + 1))


def _on_ranks(spec: LayoutSpec, world_size: int) -> Iterator[LayoutSpec]:
    """The layout on so many ranks: the same, or in every way that they can be grouped."""
    if spec.kind in REPLICATES:
        yield from (replace(spec, group_size=size) for size in range(1, world_size + 1) if world_size % size == 0)
    elif spec.kind == "two_dimensional":
        sizes = (size for size in range(1, world_size + 1) if world_size % size == 0)
        yield from (replace(spec, mesh=(world_size // size, size)) for size in sizes)
    else:
        yield spec


def _other_layouts(spec: LayoutSpec, world_size: int) -> Iterator[LayoutSpec]:
    """Flat padded, then one field plainer."""
    yield LayoutSpec()
    yield from _on_ranks(spec, world_size)
    plain = LayoutSpec(spec.kind)
    if spec.kind in NEEDS:
        plain = replace(plain, **{NEEDS[spec.kind]: getattr(spec, NEEDS[spec.kind])})
    yield plain
    for name in FIELDS:
        yield replace(spec, **{name: getattr(plain, name)})
    if spec.bucket_numel is not None and spec.bucket_numel > 1:
        for numel in sorted({1, spec.bucket_numel // 2, spec.bucket_numel - 1}):
            yield replace(spec, bucket_numel=numel)
    for rounding in (2, 3):
        yield replace(spec, alignment=rounding)
        yield replace(spec, parameter_alignment=rounding)
        yield replace(spec, bucket_alignment=rounding)
    for units in ((1,), spec.units[:1], tuple(unit - (unit > 1) for unit in spec.units)):
        yield replace(spec, units=units)


def _other_shapes(case: Case) -> Iterator[Case]:
    """Where one rank has another shape, the smallest two that differ: by an element, and by a dimension."""
    for divergence in case.divergences:
        if divergence.kind != "shape":
            continue
        parameters = tuple(
            replace(p, shape=(1,), strides=None) if p.id == divergence.parameter else p for p in case.parameters
        )
        for shape in ((2,), (1, 1)):
            changed = tuple(replace(d, value=shape) if d is divergence else d for d in case.divergences)
            yield replace(case, parameters=parameters, divergences=changed)


def _at_most(divergence: Divergence, last: int) -> Divergence:
    return replace(divergence, rank=min(divergence.rank, last))


def _parameter(p: Parameter) -> Iterator[Parameter]:
    """One field plain, one dim smaller or gone, memory packed."""
    if p.tied_to is not None:
        yield replace(p, tied_to=None)
        return
    yield replace(p, shape=(1,), strides=None)
    yield replace(p, shape=(1,) * len(p.shape), strides=None)
    yield replace(p, shape=(p.numel,), strides=None)
    for change in (
        {"strides": None},
        {"storage_offset": 0},
        {"storage_offset": 1},
        {"dtype": "float32", "grad_dtype": None},
        {"grad_dtype": None},
        {"comm_dtype": None},
        {"grad_buffer": "full"},
    ):
        yield replace(p, **change)
    if DTYPES[p.dtype].kind == "float":
        yield replace(p, frozen=False)
    for at, dim in enumerate(p.shape):
        if dim == 1 and len(p.shape) > 1:
            strides = None if p.strides is None else p.strides[:at] + p.strides[at + 1 :]
            yield replace(p, shape=p.shape[:at] + p.shape[at + 1 :], strides=strides)
        for less in sorted({1, 2, dim // 2, dim // 2 + 1, dim - 1}):
            if 0 < less < dim:
                yield replace(p, shape=(*p.shape[:at], less, *p.shape[at + 1 :]))
    if p.strides is not None:
        yield replace(p, strides=_packed(p.shape, p.strides))


def _packed(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of the same order of dimensions with nothing between their elements."""
    packed, step = list(strides), 1
    for at in sorted(range(len(shape)), key=lambda dim: strides[dim]):
        packed[at] = step
        step *= max(shape[at], 1)
    return tuple(packed)
