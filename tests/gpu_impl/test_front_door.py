"""What the room shows, and that it stands alone."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import gpu_impl

FILES = sorted(Path(gpu_impl.__file__).parent.glob("*.py"))
PROMISES = {
    "result-is-view",
    "view-outlives-release",
    "buffer-reused",
    "one-collective",
    "no-extra-copy",
    "no-steady-state-allocation",
    "no-host-sync",
}
OPERATIONS = [
    "register",
    "shard",
    "gather",
    "prefetch",
    "wait",
    "available",
    "invalidate",
    "release",
    "trim",
    "update",
    "accumulate",
    "reduce",
    "norm",
    "save",
    "load",
    "forward",
    "backward",
    "clip",
    "step",
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_it_imports_torch_and_the_standard_library_only(file: Path) -> None:
    for node in ast.walk(ast.parse(file.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            assert name.partition(".")[0] in {"torch", "gpu_impl", *sys.stdlib_module_names}


def test_the_session_offers_every_operation() -> None:
    assert all(callable(getattr(gpu_impl.Session, name)) for name in OPERATIONS)
    assert set(gpu_impl.promises) == PROMISES
    assert gpu_impl.layouts == ("flat_padded",)
    assert all(
        gpu_impl.layout((5,), 0, 2, alignment)["shard_numel"] % alignment == 0 for alignment in gpu_impl.alignments
    )


def test_every_public_name_is_there_and_told_of() -> None:
    for name in gpu_impl.__all__:
        found = getattr(gpu_impl, name)
        assert not callable(found) or found.__doc__
