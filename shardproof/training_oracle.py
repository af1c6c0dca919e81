"""What training the protocol's own model must give, said once more in NumPy over whole tensors.

The model, on rank r of W with input v: element i of every floating parameter w meets x = (i + 3 r + 5 v) mod 7 - 3,
and the loss, summed over ranks, ids and elements, is w x + w w / 2. So a parameter's gradient is w + x[r] summed over
ranks, once for each id it goes by.

Where bits must match. Contents of a case that trains are small integers, and a learning rate is a power of two, so all
that is computed is a multiple of some power of two, the `quantum`. Numbers that are multiples of q and whose sizes add
up to at most q * 2^digits of a dtype have a sum that is exact in it, in any order and with any part of it added first.
As long as that holds for every sum, one rounding is left: the new weight's, to the parameter's dtype, which IEEE 754
defines to the bit.

Where it does not hold (weights of half precision after a step, a clip that scales) the model says `room`, an absolute
bound on each element's error. With u = 2^-digits, the unit roundoff, a sum of n numbers has an error of at most
(n - 1) u times the sum of their sizes, to first order, in whatever order it is taken (Higham, Accuracy and Stability of
Numerical Algorithms, 2nd ed., section 4.2); errors of what is added come on top. Each bound here is taken twice: for
terms of higher order, and because the model computes in float64 and rounds as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from invariants import Subject, norm_rounding
from reference import DTYPES, exact_bound

Array = npt.NDArray[Any]

# Dtypes that weights can be rounded to; the narrowest floats only take part in the loss.
ROUNDED = ("float64", "float32", "float16", "bfloat16")
# Many systems add this to the norm before they divide by it, so as not to divide by zero.
_CLIP_EPSILON = 1e-6
_INTERMEDIATE = "float32"


@dataclass(frozen=True, slots=True)
class Numbers:
    """A whole tensor as the model knows it: float64 values, all multiples of `quantum`, each off by at most `error`.

    An error of 0 says that the bits are known, an infinite one that nothing is.
    """

    values: Array
    quantum: float = 1.0
    error: float = 0.0

    @property
    def known(self) -> bool:
        """Whether the values say anything."""
        return math.isfinite(self.error)


@dataclass(frozen=True, slots=True)
class Summed:
    """One parameter's contribution to the reduction: what every rank adds, and the dtypes it is added in.

    `own` are gradients that each rank accumulated before (none: no array), `uses` counts the ids it goes by.
    """

    weight: Numbers
    own: Sequence[Array]
    uses: int
    dtypes: tuple[str, ...]
    rounds: int


def inputs(shape: Sequence[int], rank: int, value: int) -> Array:
    """The x that meets a parameter of this shape on one rank."""
    numel = math.prod(shape)
    x: Array = ((np.arange(numel) + 3 * rank + 5 * value) % 7 - 3).astype(np.float64).reshape(tuple(shape))
    return x


def loss(weights: Iterable[Numbers], world_size: int, value: int) -> tuple[float | None, float]:
    """The loss over all ranks, and how far an implementation's may be; None where it is not known.

    Its terms are added in float64; w w / 2 is a multiple of half the squared quantum.
    """
    parts, mass, spread, terms, quantum = [], 0.0, 0.0, 1, 1.0
    for w in weights:
        if not w.known:
            return None, 0.0
        quantum = min(quantum, w.quantum)
        for rank in range(world_size):
            x = inputs(w.values.shape, rank, value)
            parts.append(w.values * x + w.values * w.values / 2)
            mass += _total(abs(w.values * x) + w.values * w.values / 2)
            spread += w.error * _total(abs(x) + abs(w.values) + w.error)
        terms += 2 * w.values.size * world_size
    total = math.fsum(float(one) for part in parts for one in part.ravel())
    exact = not spread and mass <= quantum * quantum / 2 * exact_bound("float64")
    return total, 0.0 if exact else 2 * (spread + terms * mass / exact_bound("float64"))


def gradient(part: Summed, world_size: int, value: int) -> Numbers:
    """The gradient of a backward, summed over ranks, with what each rank had accumulated."""
    w = part.weight
    if not w.known:
        return w
    x = [inputs(w.values.shape, rank, value) for rank in range(world_size)]
    total = sum((part.uses * (w.values + one) for one in x), np.zeros(w.values.shape))
    mass = sum((part.uses * (abs(w.values) + abs(one)) for one in x), np.zeros(w.values.shape))
    for own in part.own:
        total, mass = total + own, mass + abs(own)
    largest, narrow = _largest(mass), min(exact_bound(dtype) for dtype in part.dtypes)
    quantum = min(w.quantum, 1.0)
    if largest > min(_LARGEST.get(dtype, 0.0) for dtype in part.dtypes):
        return Numbers(total, quantum, math.inf)
    if not w.error and largest <= quantum * narrow:
        return Numbers(total, quantum)
    count = world_size * (part.uses + part.rounds + 1)
    return Numbers(total, quantum, 2 * (world_size * part.uses * w.error + count * largest / narrow))


def norm(gradients: Iterable[Numbers]) -> tuple[float | None, float]:
    """The 2-norm, and how far errors of the gradients move it; None where they are not known.

    The norm of a sum is at most the sum of norms, so it moves by no more than the norm of the errors.
    """
    known = tuple(gradients)
    if not all(one.known for one in known):
        return None, 0.0
    squares = math.fsum(float(value) ** 2 for one in known for value in one.values.ravel())
    spread = math.sqrt(sum(one.values.size * one.error**2 for one in known))
    return math.sqrt(squares), spread


def clipped(
    gradients: Mapping[str, Numbers], bound: float, subjects: Mapping[str, Subject], world_size: int
) -> dict[str, Numbers]:
    """The gradients scaled by bound / norm where the norm is above the bound.

    The norm itself may be off by its rounding and by what the gradients are off; where that leaves open whether it is
    above the bound, both outcomes are within the room.
    """
    before, spread = norm(gradients.values())
    if before is None:
        return dict(gradients)
    slack = spread + norm_rounding(subjects.values(), world_size) * before
    if before + slack <= bound or not before:
        return dict(gradients)
    scale = min(1.0, bound / before)
    # Relative to the scale: the norm's error, the epsilon, and the bound itself where the norm is as good as on it.
    relative = 2 * (slack + _CLIP_EPSILON) / before
    return {id: _scaled(one, scale, relative, subjects[id]) for id, one in gradients.items()}


def _scaled(one: Numbers, scale: float, relative: float, subject: Subject) -> Numbers:
    """Three roundings more: the scale, the product, and back to the gradient's dtype (autograd's: the parameter's)."""
    unit = 1 / min(exact_bound(subject.grad_dtype or subject.dtype), exact_bound(subject.dtype))
    off = scale * (one.error * (1 + relative) + _largest(abs(one.values)) * (relative + 6 * unit))
    return Numbers(one.values * scale, 0.0, off)


def stepped(w: Numbers, gradient: Numbers, rate: float, dtype: str, grad_dtype: str) -> Numbers:
    """w - rate * gradient, rounded once to the parameter's dtype.

    The rounding is the only one where the difference is exact in the float32 (for wider parameters, the dtype itself)
    that it is computed in, and where the gradient has no dtype of its own that it may be converted from first.
    """
    if not (w.known and gradient.known):
        return Numbers(w.values, w.quantum, math.inf)
    new = w.values - rate * gradient.values
    mass = _largest(abs(w.values) + rate * abs(gradient.values))
    quantum = min(w.quantum, rate * gradient.quantum)
    error = w.error + rate * gradient.error
    wide = max(dtype, _INTERMEDIATE, key=exact_bound)
    exact = not error and grad_dtype == dtype and (mass <= quantum * exact_bound(wide) or dtype == wide)
    exact = exact and mass <= quantum * exact_bound("float64")
    if not exact:
        error = 2 * (error + 3 * mass / exact_bound(dtype))
    if mass + error > _LARGEST[dtype]:
        return Numbers(new, quantum, math.inf)
    return Numbers(numbers(rounded(new, dtype), dtype), quantum, error)


def rounded(values: Array, dtype: str) -> Array:
    """The bits of these numbers, rounded to the nearest of the dtype, ties to even.

    bfloat16 is rounded from float32, so that a number which is not exact in that may be rounded twice.
    """
    if dtype != "bfloat16":
        return np.asarray(values, np.float64).astype(dtype).view(DTYPES[dtype].bits)
    words = np.asarray(values, np.float64).astype(np.float32).view(np.uint32)
    even = np.right_shift(words, 16) & np.uint32(1)
    return np.right_shift(words + np.uint32(0x7FFF) + even, 16).astype(np.uint16)


def numbers(bits: Array, dtype: str) -> Array:
    """What these bits mean, in float64."""
    if dtype == "bfloat16":
        return np.left_shift(bits.astype(np.uint32), 16).view(np.float32).astype(np.float64)
    return bits.view(dtype).astype(np.float64)


# Half of the largest number, so that nothing on the way to it overflows.
_LARGEST = {"float64": 1e307, "float32": 1e38, "float16": 3e4, "bfloat16": 1e38}


def _largest(values: Array) -> float:
    return float(values.max(initial=0.0))


def _total(values: Array) -> float:
    return float(values.sum())
