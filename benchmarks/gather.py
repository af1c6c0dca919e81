"""The shipped gather against the bare collective and against allocate, gather, copy: `python -m benchmarks gather`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from shardproof.bench import BARE, REPLACED, SHIPPED, measure

WORLD_SIZES = (1, 2, 4)
NUMELS = (1_001, 100_003, 4_000_001)


def main(say: Callable[[str], None] = print) -> None:
    """Print one line a world size and numel: on NCCL where a GPU is, else on gloo."""
    device = "cuda" if Path("/dev/nvidia0").exists() else "cpu"
    say(f"gather of float32 on {device}, microseconds a call, medians of one run")
    for row in measure(WORLD_SIZES, NUMELS, device=device):
        shipped, bare, replaced = (row.device[name] * 1e6 for name in (SHIPPED, BARE, REPLACED))
        say(
            f"  W={row.world_size} numel={row.numel}: {shipped:.0f}, bare {bare:.0f} ({row.over_bare:.2f}), "
            f"allocate-gather-copy {replaced:.0f} ({row.replaced_over_shipped:.2f})"
        )
