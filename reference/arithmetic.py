"""The only arithmetic that formulas use. Ints, NumPy integer arrays and SMT integer terms run through the same lines.

Nothing here branches on a value, because an SMT term has none yet: choosing is done by multiplying with a comparison.
Exact for ints of any size, and for int64 arrays as long as operands stay within 2^62 in magnitude.
"""

from __future__ import annotations

from typing import Any, TypeAlias, overload

# An int, an integer array or an SMT term: they share operators but no base class.
Term: TypeAlias = Any


@overload
def floor_div(a: int, b: int) -> int: ...
@overload
def floor_div(a: Term, b: Term) -> Term: ...
def floor_div(a: Term, b: Term) -> Term:
    """The greatest integer q with q * b <= a, for b >= 1."""
    # SMT integer terms spell division that rounds down (for a positive divisor) "/" and have no "//".
    return a // b if hasattr(a, "__floordiv__") and hasattr(b, "__floordiv__") else a / b


@overload
def ceil_div(a: int, b: int) -> int: ...
@overload
def ceil_div(a: Term, b: Term) -> Term: ...
def ceil_div(a: Term, b: Term) -> Term:
    """The least integer q with q * b >= a, for b >= 1. Never through floating point, which is wrong from 2^53 on."""
    return floor_div(a + b - 1, b)


@overload
def align_up(x: int, alignment: int) -> int: ...
@overload
def align_up(x: Term, alignment: Term) -> Term: ...
def align_up(x: Term, alignment: Term) -> Term:
    """The least multiple of the alignment that is no less than `x`."""
    return ceil_div(x, alignment) * alignment


@overload
def min_(a: int, b: int) -> int: ...
@overload
def min_(a: Term, b: Term) -> Term: ...
def min_(a: Term, b: Term) -> Term:
    """The smaller of two."""
    return b + (a < b) * (a - b)


@overload
def clamp(x: int, low: int, high: int) -> int: ...
@overload
def clamp(x: Term, low: Term, high: Term) -> Term: ...
def clamp(x: Term, low: Term, high: Term) -> Term:
    """`x` moved to the nearest point of [low, high], for low <= high."""
    capped = min_(x, high)
    return capped + (capped < low) * (low - capped)
