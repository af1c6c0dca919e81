"""The GPU benchmark is run on gloo, in small, so that it still works when a GPU is there."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import gpu


def test_it_measures_prints_and_keeps_everything(tmp_path: Path) -> None:
    said: list[str] = []
    file = tmp_path / "gpu.json"
    gpu.main(["--device", "cpu", "--quick", "--world-sizes", "1,2", "--json", str(file)], said.append)
    found = json.loads(file.read_text())
    assert [(row["world_size"], row["padded_bytes"]) for row in found["gathers"]] == [(1, 14), (2, 16)]
    assert set(found["prefetch"]["2"]) == {
        "one prefetch",
        "single gathers",
        "FSDP2 unshard",
        "allocate and gather each",
    }
    assert set(found["registration"]["2"]) == {"one exchange", "one collective each"}
    assert set(found["overlap"]["2"]) == {"gather", "product", "gather, then product", "product during prefetch"}
    assert "symmetric memory" in found["symmetric"]["2"]  # why there is none: the CPU has none
    assert found["bandwidth"] > 0
    (text,) = said
    assert text.count("| 1 | 14 | ") == 1
    assert "prefetch, world size 2 | device | host" in text
    assert "symmetric, world size 2: not measured, as " in text
