"""What makes a case one that can be run: names that lead somewhere, sizes that fit, a program whose order makes sense.

An implementation must never be accused of what a case got wrong, so that every case from outside passes here first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import prod

from reference import DTYPES
from shardproof.case import Case, Divergence, LayoutSpec, Parameter
from shardproof.errors import UsageError
from shardproof.layouts import FIELDS, NEEDS, REPLICATES, USES, fits, least_dims
from shardproof.program_rules import out_of_order

MOST_RANKS = 1024
MOST_NUMEL = 1 << 62
MOST_MOVED_BYTES = 1 << 30
DTYPE_NAMES = tuple(DTYPES)

# (place in the case, observed, expected)
Problem = tuple[str, str, str]


def check(case: Case, where: str = "case") -> None:
    """Raise UsageError for the first thing that keeps the case from being run."""
    for rule in _RULES:
        for place, observed, expected in rule(case):
            raise UsageError("this case cannot be run", where=f"{where}{place}", observed=observed, expected=expected)


def extent(parameter: Parameter) -> int:
    """Elements from the start of the parameter's storage to its last element."""
    if parameter.strides is None or not parameter.numel:
        return parameter.storage_offset + parameter.numel
    last = sum((size - 1) * stride for size, stride in zip(parameter.shape, parameter.strides, strict=True))
    return parameter.storage_offset + 1 + last


def _groups(case: Case) -> Iterator[Problem]:
    yield from _twice((group.name for group in case.groups), ".groups", "group")
    for index, group in enumerate(case.groups):
        place = f".groups[{index}].ranks"
        if not group.ranks:
            yield place, "no rank", "at least one"
        if list(group.ranks) != sorted(set(group.ranks)):
            yield place, str(list(group.ranks))[:60], "each rank once, in increasing order"
    if "main" not in {group.name for group in case.groups}:
        yield ".groups", "no group named 'main'", "the group under test"


def _parameters(case: Case) -> Iterator[Problem]:
    if not case.parameters:
        yield ".parameters", "none", "at least one"
    yield from _twice((parameter.id for parameter in case.parameters), ".parameters", "id")
    earlier: dict[str, Parameter] = {}
    for index, parameter in enumerate(case.parameters):
        place = f".parameters[{index}]"
        if prod(max(size, 1) for size in parameter.shape) > MOST_NUMEL:
            yield f"{place}.shape", f"{parameter.numel} elements", "at most 2^62"
        yield from _strides(parameter, f"{place}.strides")
        root = earlier.get(parameter.tied_to or "")
        if parameter.tied_to is not None and root is None:
            yield f"{place}.tied_to", repr(parameter.tied_to), "the id of an earlier parameter"
        if root is not None and (root.tied_to or (root.shape, root.dtype) != (parameter.shape, parameter.dtype)):
            yield f"{place}.tied_to", repr(root.id), "an untied parameter of the same shape and dtype"
        earlier[parameter.id] = parameter


def _strides(parameter: Parameter, place: str) -> Iterator[Problem]:
    if parameter.strides is None:
        return
    if len(parameter.strides) != len(parameter.shape):
        yield place, f"{len(parameter.strides)} strides", f"{len(parameter.shape)}, one a dimension"
        return
    reach = 0
    for stride, size in sorted(zip(parameter.strides, parameter.shape, strict=True)):
        if size > 1 and stride <= reach:
            yield place, str(list(parameter.strides)), "strides that keep all elements apart"
        reach += stride * max(size - 1, 0)


def _layout(case: Case) -> Iterator[Problem]:
    layout = case.layout
    used, needed, plain = USES[layout.kind], NEEDS.get(layout.kind), LayoutSpec(layout.kind)
    for name in FIELDS:
        value = getattr(layout, name)
        if name not in used and value != getattr(plain, name):
            yield f".layout.{name}", str(value)[:60], f"nothing: {layout.kind} does not use it"
        elif name == needed and not value:
            yield f".layout.{name}", "none", f"a value: {layout.kind} needs it"
    for index, parameter in enumerate(case.parameters):
        if len(parameter.shape) < least_dims(layout):
            yield f".parameters[{index}].shape", str(list(parameter.shape)), f"a dimension {layout.dim} to chunk"
    for index, divergence in enumerate(case.divergences):
        if isinstance(divergence.value, tuple) and len(divergence.value) < least_dims(layout):
            yield f".divergences[{index}].value", str(list(divergence.value)), f"a dimension {layout.dim} to chunk"
    yield from _layout_on_ranks(case)


def _layout_on_ranks(case: Case) -> Iterator[Problem]:
    layout = case.layout
    if layout.mesh is not None and prod(layout.mesh) != case.world_size:
        yield ".layout.mesh", str(list(layout.mesh)), f"a product of {case.world_size}"
    for size in sorted({len(group.ranks) for group in case.groups}):
        if layout.kind in REPLICATES and not fits(layout, size):
            yield ".layout.group_size", str(layout.group_size), f"a divisor of the world size {size}"
        elif not fits(layout, size):
            yield ".layout.mesh", str(list(layout.mesh or ())), f"{size} ranks in whole rows of tensor ranks"
    ids = tuple(parameter.id for parameter in case.parameters)
    for index, operation in enumerate(case.program):
        # Where a parameter lies in a bucket depends on those before it.
        if layout.kind == "bucket" and operation.kind in ("register", "load") and case.acted_on(operation) != ids:
            yield f".program[{index}].parameters", f"{len(operation.parameters)} of {len(ids)}", "all of them, in order"


def _moved(case: Case) -> Iterator[Problem]:
    """A case that only asks for layouts holds no data, whatever its sizes."""
    if all(operation.kind == "layout" for operation in case.program):
        return
    total = sum(extent(p) * DTYPES[p.dtype].itemsize for p in case.parameters if p.tied_to is None)
    if total > MOST_MOVED_BYTES:
        yield ".parameters", f"{total} bytes to move", f"at most {MOST_MOVED_BYTES}"


def _divergences(case: Case) -> Iterator[Problem]:
    ids = {parameter.id for parameter in case.parameters}
    tied = {parameter.id for parameter in case.parameters if parameter.tied_to is not None}
    for index, divergence in enumerate(case.divergences):
        place = f".divergences[{index}]"
        if divergence.rank >= case.world_size:
            yield f"{place}.rank", str(divergence.rank), f"a rank below the world size {case.world_size}"
        needs_parameter = divergence.kind not in ("order", "extra", "refuses")
        if divergence.parameter not in ids and (needs_parameter or divergence.parameter is not None):
            yield f"{place}.parameter", repr(divergence.parameter), "the id of a parameter"
        if divergence.kind == "shard_numel" and divergence.parameter in tied:
            yield f"{place}.parameter", repr(divergence.parameter), "one that is not tied: it has a shard of its own"
        expected = _wrong_value(divergence)
        if expected:
            yield f"{place}.value", repr(divergence.value)[:60], expected


def _wrong_value(divergence: Divergence) -> str:
    """What the value must be, where it is not."""
    value = divergence.value
    if divergence.kind in ("shape", "extra"):
        right = isinstance(value, tuple) and prod(value) * 16 <= MOST_MOVED_BYTES
        return "" if right else "a shape of at most a gigabyte"
    if divergence.kind == "dtype":
        return "" if value in DTYPES else f"one of {', '.join(DTYPES)}"
    if divergence.kind == "id":
        return "" if isinstance(value, str) else "an id"
    if divergence.kind == "shard_numel":
        return "" if isinstance(value, int) and abs(value) <= 1 << 20 else "how many elements more, or fewer"
    return "" if value is None else "null"


def _delays(case: Case) -> Iterator[Problem]:
    for index, delay in enumerate(case.delays):
        if delay.rank >= case.world_size:
            yield f".delays[{index}].rank", str(delay.rank), f"a rank below the world size {case.world_size}"
        if delay.operation >= len(case.program):
            yield f".delays[{index}].operation", str(delay.operation), f"one of the {len(case.program)} operations"


def _program(case: Case) -> Iterator[Problem]:
    ids, names = {parameter.id for parameter in case.parameters}, {group.name for group in case.groups}
    if not case.program:
        yield ".program", "no operation", "at least one"
    for index, operation in enumerate(case.program):
        place = f".program[{index}]"
        for at, id in enumerate(operation.parameters):
            if id not in ids:
                yield f"{place}.parameters[{at}]", repr(id), "the id of a parameter"
        if len(set(operation.parameters)) != len(operation.parameters):
            yield f"{place}.parameters", "an id twice", "each id once"
        if operation.group not in names:
            yield f"{place}.group", repr(operation.group), f"one of {', '.join(sorted(names))}"
    yield from ((f".program[{index}]", observed, expected) for index, observed, expected in out_of_order(case))


def _twice(names: Iterable[str], place: str, what: str) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            yield f"{place}[{index}]", f"the {what} {name!r} again", f"each {what} once"
        seen.add(name)


_RULES: tuple[Callable[[Case], Iterator[Problem]], ...] = (
    _groups,
    _parameters,
    _layout,
    _divergences,
    _program,
    _delays,
    _moved,
)
