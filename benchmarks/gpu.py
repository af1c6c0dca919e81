"""What gathering costs on GPUs, as ratios in one run, each figure beside what the memory's bandwidth allows.

    python -m benchmarks.gpu [--world-sizes 1,2,4] [--device cuda] [--quick] [--json FILE] [--picture FILE]

Ranks take a GPU each where there are enough, else they share one (NCCL 2.30 or newer). `--device cpu --quick` runs the
same code on gloo in seconds, which says nothing about GPUs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import gpu_rank
from shardproof.bench import BARE, REPLACED, SHIPPED, measure
from shardproof.errors import CouldNotJudge
from shardproof.ranks import Pool
from shardproof.world_sizes import parse_world_sizes

_DTYPE, _ITEMSIZE = "bfloat16", 2
_NUMELS = (512, 32_769, 524_289, 8_388_609, 134_217_729, 268_435_457)
_SECTIONS = ("prefetch", "overlap", "symmetric", "registration", "replayed")
_US = 1e6
_DEADLINE = 300.0


def main(arguments: Sequence[str] | None = None, say: Callable[[str], None] = print) -> None:
    """Measure, print, and write what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu")
    parser.add_argument("--world-sizes", default="1,2,4")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true", help="small sizes, few rounds: does it run at all?")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    told = parser.parse_args(arguments)
    found = figures(parse_world_sizes(told.world_sizes), told.device, quick=told.quick)
    say(table(found))
    if told.json:
        told.json.write_text(json.dumps(found, indent=1) + "\n")
    if told.picture:
        draw(found, told.picture)


def figures(world_sizes: Sequence[int], device: str, *, quick: bool) -> dict[str, Any]:
    """Everything, as JSON: seconds a call by variant, and the bandwidth of a copy in bytes a second."""
    rounds, calls, count = (1, 2, 3) if quick else (9, 20, 64)
    numels = (7,) if quick else _NUMELS
    found: dict[str, Any] = {"device": device, "gathers": [], **{section: {} for section in _SECTIONS}}
    for row in measure(
        world_sizes, numels, device=device, dtype=_DTYPE, itemsize=_ITEMSIZE, rounds=rounds, calls=calls
    ):
        found["gathers"].append(
            {
                "world_size": row.world_size,
                "numel": row.numel,
                "padded_bytes": row.padded_bytes,
                "device": dict(row.device),
                "host": dict(row.host),
            }
        )
    with Pool(max(world_sizes), device=device, preload=("gpu_impl",)) as pool:
        nbytes = 1 << (16 if quick else 30)
        found["bandwidth"] = _ask(pool, "bandwidth", [0], nbytes=nbytes, rounds=rounds)
        for world_size in world_sizes:
            ranks, several = list(range(world_size)), {"rounds": rounds, "calls": max(1, calls // 10)}
            numel = 7 if quick else 65_537
            found["prefetch"][world_size] = _ask(pool, "prefetches", ranks, count=count, numel=numel, **several)
            large, rows = (7, 8) if quick else (134_217_729, 8192)
            found["overlap"][world_size] = _ask(pool, "overlap", ranks, numel=large, rows=rows, **several)
            found["symmetric"][world_size] = _ask(pool, "symmetric", ranks, numel=large, **several)
            if device == "cuda":
                found["replayed"][world_size] = _ask(pool, "replayed", ranks, numel=512, rounds=rounds, calls=calls)
            if world_size <= 2:  # at a large world size on one GPU a thousand collectives take a minute
                found["registration"][world_size] = _ask(
                    pool, "registration", ranks, count=count if quick else 1000, rounds=min(rounds, 3)
                )
    return found


def _ask(pool: Pool, what: str, ranks: list[int], **payload: Any) -> Any:
    """The slowest rank's figures. Raises CouldNotJudge where a rank did not come back."""
    reports = pool.run(f"{gpu_rank.__file__}:{what}", {"ranks": ranks, **payload}, ranks=ranks, deadline=_DEADLINE)
    lost = [report.story for report in reports if report.ended != "done"]
    if lost:
        raise CouldNotJudge("\n".join(lost))
    values = [report.value for report in reports]
    if not isinstance(values[0], dict):
        return values[0]
    clocks = ("device", "host")
    return {name: {clock: max(value[name][clock] for value in values) for clock in clocks} for name in values[0]}


def table(found: Mapping[str, Any]) -> str:
    """Markdown, in microseconds."""
    gathers = [
        "| world size | padded bytes | shipped | bare | replaced | allocation | copy | shipped / bare "
        "| replaced / shipped | host: shipped - bare | bytes moved / bandwidth | bus GB/s |",
        "|" + " --- |" * 12,
        *(_gather_line(row, found["bandwidth"]) for row in found["gathers"]),
    ]
    blocks = ["\n".join(gathers)]
    for section in _SECTIONS:
        for world_size, variants in found[section].items():
            if isinstance(variants, str):
                blocks.append(f"{section}, world size {world_size}: not measured, as {variants}")
                continue
            lines = [f"{section}, world size {world_size} | device | host", "--- | --- | ---"]
            lines += [
                f"{name} | {seen['device'] * _US:.1f} | {seen['host'] * _US:.1f}" for name, seen in variants.items()
            ]
            blocks.append("\n".join(f"| {line} |" for line in lines))
    return "\n\n".join([*blocks, f"a copy moves {found['bandwidth'] / 1e9:.0f} GB/s"])


def _gather_line(row: Mapping[str, Any], bandwidth: float) -> str:
    device, host = row["device"], row["host"]
    shipped, bare, replaced = (device[name] for name in (SHIPPED, BARE, REPLACED))
    # What one rank's memory cannot avoid: reading the shard and writing the buffer.
    bound = (row["padded_bytes"] / row["world_size"] + row["padded_bytes"]) / bandwidth
    times = (shipped, bare, replaced, device["allocation alone"], device["copy alone"])
    cells = [
        str(row["world_size"]),
        f"{row['padded_bytes']:,}",
        *(f"{seconds * _US:.1f}" for seconds in times),
        f"{shipped / bare:.3f}",
        f"{replaced / shipped:.2f}",
        f"{(host[SHIPPED] - host[BARE]) * _US:.1f}",
        f"{bound * _US:.1f}",
        # What came in from other ranks: beside it belongs the limit of the link, where each has a GPU.
        f"{row['padded_bytes'] * (1 - 1 / row['world_size']) / shipped / 1e9:.1f}",
    ]
    return f"| {' | '.join(cells)} |"


def draw(found: Mapping[str, Any], file: Path) -> None:
    """The gathers over their size, one panel a world size, on logarithmic axes."""
    from matplotlib.figure import Figure

    sizes = sorted({row["world_size"] for row in found["gathers"]})
    figure = Figure(figsize=(4 * len(sizes), 3.4), layout="constrained")
    for axes, world_size in zip(figure.subplots(1, len(sizes), squeeze=False)[0], sizes, strict=True):
        rows = [row for row in found["gathers"] if row["world_size"] == world_size]
        for name in (SHIPPED, BARE, REPLACED):
            axes.loglog([r["padded_bytes"] for r in rows], [r["device"][name] * _US for r in rows], "o-", label=name)
        bound = [(r["padded_bytes"] / world_size + r["padded_bytes"]) / found["bandwidth"] * _US for r in rows]
        axes.loglog([r["padded_bytes"] for r in rows], bound, "k:", label="memory bandwidth")
        axes.set(title=f"world size {world_size}", xlabel="padded bytes", ylabel="microseconds a call")
    axes.legend(fontsize="small")
    figure.savefig(file)


if __name__ == "__main__":
    main()
