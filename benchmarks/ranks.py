"""What a run on the pool costs: an empty entry, one all-gather, and the same all-gather inside one run.

    python -m benchmarks.ranks [--device cuda] [--runs 500]

Prints medians in microseconds and, beside each, the lowest tenth, which a busy machine disturbs less.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import quantiles
from typing import Any

from shardproof.ranks import Context, Pool

WORLD_SIZES = (2, 4, 8)
_HERE = __file__
Answer = tuple[object, list[bytes]]


def empty(context: Context, payload: object, blobs: object) -> Answer:  # noqa: ARG001  # every entry takes these
    """Nothing at all: what a round trip costs."""
    return None, []


def gather(context: Context, payload: int, blobs: object) -> Answer:  # noqa: ARG001  # every entry takes these
    """`payload` all-gathers of one element a rank; seconds for each of them."""
    import torch
    import torch.distributed as dist

    shard = torch.full((1,), float(context.rank), device=context.device)
    full = torch.empty(context.pool_size, device=context.device)
    into = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    seconds = []
    for _ in range(payload):
        started = time.perf_counter()
        into(full, shard)
        full.tolist()
        seconds.append(time.perf_counter() - started)
    return seconds, []


def timed(call: Callable[[], object]) -> float:
    """Seconds that one call took."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def shown(seconds: list[float]) -> str:
    """Median and lowest tenth in microseconds."""
    tenths = quantiles(seconds, n=10)
    return f"{tenths[4] * 1e6:8.0f} ({tenths[0] * 1e6:5.0f})"


def measure(world_size: int, device: str, runs: int) -> list[str]:
    """One row of the table."""
    started = time.perf_counter()
    with Pool(world_size, device=device) as pool:

        def run(name: str, payload: Any = None) -> Any:  # whatever the entry takes and returns
            report = pool.run(f"{_HERE}:{name}", payload, deadline=60)[0]
            assert report.ended == "done", report.story
            return report.value

        run("gather", 20)
        start = time.perf_counter() - started
        empties = [timed(lambda: run("empty")) for _ in range(runs)]
        gathers = [timed(lambda: run("gather", 1)) for _ in range(runs)]
        bare = run("gather", runs)
        pool.run("os:abort")
        replaced = timed(lambda: run("gather", 1))
    return [f"{world_size:5}", f"{start:7.2f}", f"{replaced:7.2f}", shown(empties), shown(gathers), shown(bare)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--runs", type=int, default=500)
    asked = parser.parse_args()
    print("world  start s replace s   empty run us     gather run us    gather alone us")
    for world_size in WORLD_SIZES:
        print("  ".join(measure(world_size, asked.device, asked.runs)), flush=True)


if __name__ == "__main__":
    main()
