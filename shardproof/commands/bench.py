"""`shardproof bench`: what the shipped gather costs."""

from __future__ import annotations

from typing import Annotated

import typer

from shardproof.world_sizes import parse_world_sizes

_NUMELS = (1_001, 100_003, 4_000_001)
_MICROSECONDS = 1e6


def bench(
    device: Annotated[str | None, typer.Option(help="cpu or cuda. Default: cuda where a GPU can be used.")] = None,
    world_sizes: Annotated[str, typer.Option(help='World sizes, such as "1-8" or "1,2,4".')] = "1,2,4",
    rounds: Annotated[int, typer.Option(help="Times that each way has its turn.", min=1)] = 15,
) -> None:
    """Compare the shipped gather with the raw collective and with allocate, gather, copy, in turns in one run."""
    sizes = parse_world_sizes(world_sizes)
    from shardproof.bench import BARE, REPLACED, SHIPPED, measure
    from shardproof.opening import devices

    chosen = devices(device)[0]
    typer.echo(f"gather of float32 on {chosen}, microseconds a call, medians of one run")
    typer.echo(f"{'W':>3} {'numel':>10} {'shipped':>10} {'raw':>10} {'replaced':>10} {'x raw':>7} {'replaced x':>11}")
    for row in measure(sizes, _NUMELS, device=chosen, rounds=rounds):
        times = "".join(f"{row.device[name] * _MICROSECONDS:>11.0f}" for name in (SHIPPED, BARE, REPLACED))
        ratios = f"{row.over_bare:>8.2f}{row.replaced_over_shipped:>12.2f}"
        typer.echo(f"{row.world_size:>3} {row.numel:>10}{times}{ratios}")
