"""Every script in `findings/` that is about Megatron-Core shows its fault with this release, in its own words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "findings").glob("megatron_*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_the_fault_is_still_there(script: Path) -> None:
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=240, check=False)
    said = [line for line in ran.stdout.splitlines() if line.startswith(("expected ", "observed "))]
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert [line.split()[0] for line in said] == ["expected", "observed"], ran.stdout + ran.stderr
