"""How far a number may be from the exact one where nothing went wrong but rounding."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from invariants.evidence import Subject
from reference import DTYPES, exact_bound


def norm_rounding(subjects: Iterable[Subject], world_size: int) -> float:
    """The largest relative error of a norm that is computed without a mistake.

    An implementation may square and add in float32, one rounding an element (half of it left by the square root, so
    this is generous), and hold the norm of each parameter, of each rank and of all in the gradient's dtype (autograd's
    has the parameter's), one rounding each. The unit roundoff of a float is 1 / exact_bound. Never above a quarter: no
    mistake with a factor passes, however narrow the dtype.
    """
    known = tuple(subjects)
    dtypes = {dtype for s in known for dtype in (s.dtype, s.grad_dtype or s.dtype)}
    floats = [dtype for dtype in dtypes if DTYPES[dtype].kind == "float"]
    coarsest = min((exact_bound(dtype) for dtype in floats), default=exact_bound("float32"))
    elements = sum(prod(subject.shape) for subject in known)
    return min(elements / exact_bound("float32") + (len(known) + world_size + 1) / coarsest, 0.25)
