"""`shardproof impls`: the known implementations."""

from __future__ import annotations

from typing import Annotated

import typer

from shardproof.errors import CouldNotJudge, UsageError


def impls(
    device: Annotated[str, typer.Option(help="cpu or cuda: where to ask them.")] = "cpu",
) -> None:
    """Print the known implementations, and what each offers and promises."""
    from shardproof.implementations import KNOWN
    from shardproof.opening import devices, open_engine

    candidates = devices(device)
    for name, known in KNOWN.items():
        typer.echo(f"{name} ({known.target}): {known.summary}")
        try:
            with open_engine(name, candidates, 1, typer.echo) as (engine, _):
                described = engine.description
        except (UsageError, CouldNotJudge) as error:
            typer.echo(f"  cannot be used here: {_in_short(str(error))}")
            continue
        typer.echo(f"  offers      {', '.join(described.offers)}")
        typer.echo(f"  promises    {', '.join(described.promises) or 'nothing'}")
        typer.echo(f"  layouts     {', '.join(described.layouts)}")
        typer.echo(f"  alignments  {', '.join(map(str, described.alignments))}")


def _in_short(error: str) -> str:
    """The first line of an error and the last, which says what was missing."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    return lines[0] if len(lines) < 2 else f"{lines[0]} ({lines[-1]})"
