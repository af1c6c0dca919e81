"""The model's formulas as a value, so that a wrong one can be put in place of a right one and be refuted."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import reference

# A formula takes and returns ints, NumPy integer arrays or SMT integer terms (`run`: a Run whose fields are those).
Formula = Callable[..., Any]
Note = Callable[[Formula, tuple[Any, ...], Any], None]


@dataclass(frozen=True, slots=True)
class Formulas:
    """What claims speak about. By default the very functions that the model's layouts run."""

    floor_div: Formula = reference.floor_div
    ceil_div: Formula = reference.ceil_div
    align_up: Formula = reference.align_up
    min: Formula = reference.min_
    clamp: Formula = reference.clamp
    shard_numel: Formula = reference.shard_numel_of
    owned: Formula = reference.owned_of
    padded_numel: Formula = reference.padded_numel_of
    run: Formula = reference.run_of
    share: Formula = reference.share_of
    offset_at: Formula = reference.offset_at
    position_at: Formula = reference.position_at


def noted(formulas: Formulas, note: Note) -> Formulas:
    """The same formulas; each use calls `note(formula, arguments, result)`."""

    def noting(formula: Formula) -> Formula:
        def used(*arguments: Any) -> Any:
            result = formula(*arguments)
            note(formula, arguments, result)
            return result

        return used

    return Formulas(**{field.name: noting(getattr(formulas, field.name)) for field in fields(Formulas)})


def definition(formula: Formula) -> str:
    """The formula as its own source says it: "name(arguments) = expression, where name = expression".

    For plain functions whose last statement returns; the name alone where there is no source.
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(formula)))
    except (OSError, TypeError, SyntaxError):
        return getattr(formula, "__name__", repr(formula))
    function = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    names = ", ".join(argument.arg for argument in function.args.args)
    last = function.body[-1]
    if not isinstance(last, ast.Return) or last.value is None:
        return function.name
    where = ", ".join(ast.unparse(node) for node in function.body if isinstance(node, ast.Assign))
    return f"{function.name}({names}) = {ast.unparse(last.value)}" + (f", where {where}" if where else "")
