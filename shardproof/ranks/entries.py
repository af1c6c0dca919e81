"""Finding the function a run names: "pkg.mod:function" or "/path/file.py:function"."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

Entry = Callable[..., tuple[Any, Sequence[bytes | bytearray | memoryview]]]


@functools.cache
def resolve(entry: str) -> Entry:
    """The function, loaded once a process. Raises ValueError, or whatever importing its module raises."""
    place, _, name = entry.rpartition(":")
    if not place or not name:
        raise ValueError(f"{entry!r} is neither pkg.mod:function nor /path/file.py:function")
    module = _load_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    found = functools.reduce(getattr, name.split("."), module)
    if not callable(found):
        raise ValueError(f"{entry!r} is not a function")
    function: Entry = found
    return function


@functools.cache
def _load_file(path: Path) -> ModuleType:
    name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"  # two files may share a stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
