"""Implementations by name."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from shardproof.errors import UsageError
from shardproof.names import nearest

KNOWN: Mapping[str, str] = MappingProxyType({"gpu_impl": "gpu_impl"})
"""Short names, and the `pkg.mod` or `pkg.mod:attr` that each stands for."""

_RANK_SIDE = "shardproof.rank_side.entry"
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*(:[^\W\d]\w*(\.[^\W\d]\w*)*)?")


@dataclass(frozen=True, slots=True)
class Target:
    """Where an implementation is: `pkg.mod` or `pkg.mod:attr`, and the modules that ranks find imported."""

    target: str
    preload: tuple[str, ...]


def resolve(name: str) -> Target:
    """A known name, or the place itself. Raises UsageError where it can be neither; nothing is imported here."""
    target = KNOWN.get(name, name)
    module = target.partition(":")[0]
    if not _DOTTED.fullmatch(target) or not _is_there(module.partition(".")[0]):
        raise UsageError(
            f"there is no implementation {name!r}",
            where="--impl",
            expected=f"one of {', '.join(KNOWN)}, or pkg.mod, or pkg.mod:attr that Python can import from here",
            todo=nearest(name, list(KNOWN)),
        )
    # Code we do not know may run tensor operations on import, after which no rank may be forked.
    return Target(target, (_RANK_SIDE, module) if name in KNOWN else (_RANK_SIDE,))


def _is_there(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False
