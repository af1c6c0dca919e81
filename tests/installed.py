"""Lays the tests out beside an installed Shardproof, so that they cannot see the checkout: installed.py CHECKOUT TO."""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path

PACKAGES = ("reference", "invariants", "gpu_impl", "shardproof")
# Tests of pages, scripts, benchmarks and configuration need the checkout by nature.
ONLY_IN_CHECKOUT = ("benchmarks", "docs", "findings", "test_imports.py")


def main(checkout: Path, to: Path) -> None:
    """Copy the tests and their settings; fail where a package still comes from the checkout."""
    shutil.rmtree(to / "tests", ignore_errors=True)
    shutil.copytree(checkout / "tests", to / "tests", ignore=shutil.ignore_patterns("__pycache__", *ONLY_IN_CHECKOUT))
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(checkout / name, to / name)
    for package in PACKAGES:
        file = importlib.import_module(package).__file__
        if file is None or (Path(file).is_relative_to(checkout) and "site-packages" not in file):
            sys.exit(f"{package} comes from {file}, expected the installed wheel")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
