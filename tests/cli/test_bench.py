"""`shardproof bench`."""

from __future__ import annotations

from tests.cli.conftest import Run


def test_one_line_a_world_size_and_numel(run: Run) -> None:
    seen = run("bench", "--device", "cpu", "--world-sizes", "1,2", "--rounds", "1")
    assert seen.code == 0
    rows = [line.split()[:2] for line in seen.out.splitlines()[2:]]
    assert rows == [[size, numel] for size in "12" for numel in ("1001", "100003", "4000001")]
