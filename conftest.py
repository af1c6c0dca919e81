"""Sets the tests up: assertions of our own packages explain themselves, the plugin is there, a header says on what."""

from __future__ import annotations

import os
import sys
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest

_PLUGIN = "shardproof.pytest_plugin"
_OURS = ("reference", "invariants", "gpu_impl", "shardproof")

pytest.register_assert_rewrite(*(package for package in _OURS if package not in sys.modules))


def _comes_by_itself() -> bool:
    """Whether an installed shardproof has pytest load the plugin already."""
    installed = any(point.value == _PLUGIN for point in entry_points(group="pytest11"))
    return installed and not os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD")


pytest_plugins = ("pytester",) if _comes_by_itself() else ("pytester", _PLUGIN)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pytest_report_header() -> str:
    """What is under test; torch itself is not imported here."""
    backend = "nccl" if Path("/dev/nvidia0").exists() else "gloo"
    return f"under test: torch {version('torch')}, {backend}, {_cores()} cores"
