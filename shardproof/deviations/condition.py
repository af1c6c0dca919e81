"""When a known deviation applies: a small expression over facts of a case. Nothing of it is ever executed as Python.

Literals, the names below, `and or not`, `== != < <= > >= in`, `+ - * // %`, parentheses and lists.

of the case       world_size, parameters (how many), layout (its kind), alignment, dim, group_size (of ranks that shard
                  among themselves, all of them where no ranks replicate), divergence (its kind, or ""),
                  features, operations, reductions, group_sizes (sets)
of a parameter    numel, shape, ndim, dim_size (of the chunked dimension), dtype, grad_dtype, comm_dtype, strided,
                  storage_offset, frozen, tied, grad_buffer
of the violation  operation (its kind, or ""), observed, expected (texts)

A parameter's facts are those of the parameter that the violation names; where it names none, the condition applies if
it does for any parameter.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from invariants import Violation
from shardproof.case import Case, Parameter
from shardproof.errors import UsageError
from shardproof.features import features
from shardproof.names import nearest

Facts = Mapping[str, Any]
Term = Callable[[Facts], Any]

_MOST = 500  # characters


def _of_case(case: Case) -> dict[str, Any]:
    return {
        "world_size": case.world_size,
        "group_sizes": frozenset(len(group.ranks) for group in case.groups),
        "parameters": len(case.parameters),
        "layout": case.layout.kind,
        "alignment": case.layout.alignment,
        "dim": case.layout.dim,
        "group_size": case.layout.group_size or case.world_size,
        "features": features(case),
        "operations": frozenset(operation.kind for operation in case.program),
        "reductions": frozenset(operation.reduction for operation in case.program if operation.kind == "reduce"),
        "divergence": case.divergences[0].kind if case.divergences else "",
    }


def _of_parameter(case: Case, p: Parameter) -> dict[str, Any]:
    dim = case.layout.dim
    return {
        "numel": p.numel,
        "shape": list(p.shape),
        "ndim": len(p.shape),
        "dim_size": p.shape[dim] if dim < len(p.shape) else 0,
        "dtype": p.dtype,
        "grad_dtype": p.grad_dtype or p.dtype,
        "comm_dtype": p.comm_dtype or p.dtype,
        "strided": p.strides is not None,
        "storage_offset": p.storage_offset,
        "frozen": p.frozen,
        "tied": p.tied_to is not None,
        "grad_buffer": p.grad_buffer,
    }


def _of_violation(case: Case, violation: Violation) -> dict[str, Any]:
    step = violation.step
    known = step is not None and step < len(case.program)
    return {
        "operation": case.program[step].kind if known and step is not None else "",
        "observed": violation.observed,
        "expected": violation.expected,
    }


_EXAMPLE = Case((), (), ())
NAMES = (
    "world_size",
    "group_sizes",
    "parameters",
    "layout",
    "alignment",
    "dim",
    "group_size",
    "features",
    "operations",
    "reductions",
    "divergence",
    *_of_parameter(_EXAMPLE, Parameter("", ())),
    *_of_violation(_EXAMPLE, Violation("", "", "")),
)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as it is written, ready to be asked. Raises UsageError for what is not one."""

    text: str
    term: Term

    @classmethod
    def read(cls, text: str, where: str) -> Condition:
        """Understand a condition; `where` names it in an error."""
        try:
            if len(text) > _MOST:
                raise _NotOne(f"{len(text)} characters", f"at most {_MOST}")
            return cls(text, _term(ast.parse(text, mode="eval").body))
        except SyntaxError as error:
            raise UsageError("this is no condition", where=where, observed=repr(text), expected=error.msg) from error
        except (_NotOne, RecursionError, ValueError) as error:
            observed, expected, *todo = (*error.args, "", "")
            raise UsageError(
                "this is no condition", where=where, observed=str(observed), expected=expected, todo="".join(todo)
            ) from error

    def holds(self, case: Case, violation: Violation) -> bool:
        """Whether the violation is one that the condition speaks of."""
        common = _of_case(case) | _of_violation(case, violation)
        named = [p for p in case.parameters if violation.parameter in (None, p.id)]
        return any(self._holds(common | _of_parameter(case, parameter)) for parameter in named)

    def _holds(self, facts: Facts) -> bool:
        """A comparison that makes no sense for these facts (text with number, division by zero) does not hold."""
        try:
            return bool(self.term(facts))
        except (TypeError, ZeroDivisionError, OverflowError):
            return False


class _NotOne(Exception):  # noqa: N818  # never leaves this module
    """(observed, expected, what to do)."""


def _of_numbers(calculate: Callable[[int, int], int]) -> Callable[[Any, Any], int]:
    """Arithmetic on whole numbers alone: on texts, `*` and `%` can fill the memory."""

    def calculated(left: Any, right: Any) -> int:
        if not isinstance(left, int) or not isinstance(right, int):
            raise TypeError
        return calculate(left, right)

    return calculated


_BINARY: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: _of_numbers(operator.add),
    ast.Sub: _of_numbers(operator.sub),
    ast.Mult: _of_numbers(operator.mul),
    ast.FloorDiv: _of_numbers(operator.floordiv),
    ast.Mod: _of_numbers(operator.mod),
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, items: item in items,
    ast.NotIn: lambda item, items: item not in items,
}


def _term(node: ast.expr) -> Term:  # one answer a kind of node
    match node:
        case ast.Constant(value=bool() | int() | str() as value):
            return lambda _: value
        case ast.Name(id=name) if name in NAMES:
            return operator.itemgetter(name)
        case ast.Name(id=name):
            raise _NotOne(f"the name {name!r}", f"one of {', '.join(NAMES)}", nearest(name, NAMES))
        case ast.List(elts=items) | ast.Tuple(elts=items):
            terms = [_term(item) for item in items]
            return lambda facts: [term(facts) for term in terms]
        case ast.BoolOp(op=ast.And(), values=values):
            terms = [_term(value) for value in values]
            return lambda facts: all(term(facts) for term in terms)
        case ast.BoolOp(values=values):
            terms = [_term(value) for value in values]
            return lambda facts: any(term(facts) for term in terms)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            term = _term(operand)
            return lambda facts: not term(facts)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
            return lambda _: -value
        case ast.BinOp(op=op, left=left, right=right) if type(op) in _BINARY:
            return _joined(_BINARY[type(op)], _term(left), _term(right))
        case ast.Compare(left=left, ops=ops, comparators=rights) if all(type(op) in _BINARY for op in ops):
            return _comparison(left, ops, rights)
    raise _NotOne(ast.unparse(node)[:80], "literals, names, and or not, comparisons, in, + - * // %")


def _joined(join: Callable[[Any, Any], Any], left: Term, right: Term) -> Term:
    return lambda facts: join(left(facts), right(facts))


def _comparison(left: ast.expr, ops: list[ast.cmpop], rights: list[ast.expr]) -> Term:
    terms = [_term(node) for node in (left, *rights)]
    pairs = [_joined(_BINARY[type(op)], *both) for op, both in zip(ops, pairwise(terms), strict=True)]
    return lambda facts: all(pair(facts) for pair in pairs)
