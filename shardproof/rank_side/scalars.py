"""0-dim state beside the parameters: what the harness puts there of its own, and how it is looked at.

An implementation counts its steps and little else, so that most saves would carry nothing to lose. Where a session's
`scalars` can be written to, every kind of 0-dim state that an optimizer keeps is put in before a save, and other values
before a load: what a load leaves alone shows as well as what it cuts.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from numbers import Number
from typing import Any

import torch

from shardproof.rank_side.tensors import dtype_name

# Adam's step count is a 0-dim float32 tensor; others keep an int64 one, a plain number, or a scale in half precision.
_TENSORS = (torch.float32, torch.float64, torch.int64, torch.bfloat16)
_NAME = "put there by the harness: "


def plant(session: Any, generation: int) -> None:
    """Put numbers of every kind in, the same on every rank and other ones for another generation."""
    scalars = getattr(session, "scalars", None)
    if not isinstance(scalars, MutableMapping):
        return
    for at, dtype in enumerate(_TENSORS):
        scalars[f"{_NAME}tensor {at}"] = torch.tensor(3 + 2 * generation + at, dtype=dtype)
    scalars[f"{_NAME}int"] = 3 + 2 * generation
    scalars[f"{_NAME}float"] = 0.1 + generation
    scalars[f"{_NAME}negative zero"] = -0.0 if generation % 2 else 0.0


def seen(session: Any) -> dict[str, float]:
    """Every scalar's value under its name and kind: a 0-dim tensor that comes back as a number is another one.

    What is no scalar any more (an empty or longer tensor) is left out, and so is missed.
    """
    return dict(_values(getattr(session, "scalars", {})))


def _values(scalars: Any) -> Iterator[tuple[str, float]]:
    for name, value in scalars.items():
        if isinstance(value, torch.Tensor) and value.dim() == 0:
            yield f"{name} ({dtype_name(value.dtype)} tensor)", float(value)
        elif isinstance(value, Number) and not isinstance(value, complex):
            yield f"{name} ({type(value).__name__})", float(value)  # type: ignore[arg-type]  # every real number is
