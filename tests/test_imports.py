"""Imports go one way, and every room is entered by its front door."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("reference", "invariants", "gpu_impl", "shardproof")
# Room -> other rooms it may enter, and packages from elsewhere (None: any).
ALLOWED: dict[str, tuple[set[str], set[str] | None]] = {
    "reference": (set(), {"numpy"}),
    "invariants": ({"reference"}, {"numpy"}),
    "gpu_impl": (set(), {"torch"}),
    "shardproof": ({"reference", "invariants", "gpu_impl"}, None),
}
PLANTED = [
    ("reference", "import numpy as np\nfrom reference.runs import Run\nfrom math import prod", []),
    ("reference", "import torch", ["torch"]),
    ("reference", "import invariants", ["invariants"]),
    ("reference", "def f():\n    from shardproof.case import Case", ["shardproof.case"]),
    ("invariants", "from reference import Layout\nfrom invariants.law import Law", []),
    ("invariants", "from reference.runs import Run", ["reference.runs"]),
    ("invariants", "import reference.runs", ["reference.runs"]),
    ("invariants", "from reference import runs", ["reference.runs"]),
    ("invariants", "import hypothesis", ["hypothesis"]),
    ("gpu_impl", "import torch.distributed as dist\nfrom . import buffers", []),
    ("gpu_impl", "from reference import ceil_div", ["reference"]),
    ("gpu_impl", "import numpy", ["numpy"]),
    ("shardproof", "import rich\nfrom invariants import Law\nimport gpu_impl", []),
    ("shardproof", "if True:\n    from invariants.law import Law", ["invariants.law"]),
]


def imported(source: str) -> Iterator[str]:
    """Every absolute module name that the source imports, wherever the import stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
            # `from room import module` enters by the side as well.
            yield from (f"{node.module}.{alias.name}" for alias in node.names if is_module(node.module, alias.name))


def is_module(package: str, name: str) -> bool:
    folder = ROOT.joinpath(*package.split("."))
    return package in ROOMS and ((folder / f"{name}.py").exists() or (folder / name).is_dir())


def forbidden(room: str, source: str) -> list[str]:
    """The imports that this room may not make, in the order in which they stand."""
    rooms, packages = ALLOWED[room]
    found = []
    for module in imported(source):
        top = module.partition(".")[0]
        elsewhere = packages is None or top in packages or top in sys.stdlib_module_names
        fine = top == room or (module in rooms if top in ROOMS else elsewhere)
        if not fine:
            found.append(module)
    return found


FILES = [(room, path) for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]


@pytest.mark.parametrize(("room", "path"), FILES, ids=[str(path.relative_to(ROOT)) for _, path in FILES])
def test_a_file_imports_only_what_its_room_may(room: str, path: Path) -> None:
    assert forbidden(room, path.read_text(encoding="utf-8")) == []


def test_every_room_is_looked_at() -> None:
    assert {room for room, _ in FILES} == set(ROOMS)


@pytest.mark.parametrize(("room", "source", "expected"), PLANTED)
def test_planted_imports_are_found(room: str, source: str, expected: list[str]) -> None:
    assert forbidden(room, source) == expected
