"""Whether our own packages are the ones that Python finds: a checkout may use their plain names for something else."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from shardproof.errors import UsageError

SIBLINGS = ("reference", "invariants", "gpu_impl")
_TREE = Path(__file__).resolve().parents[1]


def check_siblings() -> None:
    """Raise UsageError, naming the path, where another package of a sibling's name comes first."""
    for name in SIBLINGS:
        spec = importlib.util.find_spec(name)
        found = Path(spec.origin).resolve().parent if spec and spec.origin else None
        if found != _TREE / name:
            raise UsageError(
                f"the package {name!r} is not the one that Shardproof brings",
                observed=str(found) if found else "none",
                expected=str(_TREE / name),
                todo=f"run from a folder that has nothing named {name!r} in it, or rename that",
            )
