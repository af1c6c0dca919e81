"""What `shardproof replay` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from shardproof.failure import Failure
from shardproof.failure_text import describe

if TYPE_CHECKING:
    from shardproof.running import Verdict


def print_replay(verdict: Verdict, failures: Sequence[Failure], law: str | None) -> None:
    """Every broken law in full, and one last line; `law` is the one that the saved case was kept for."""
    for failure in failures:
        typer.echo(describe(failure))
    judged = [judgement for judgement in verdict.judgements if judgement.judged]
    broken = [failure.law for failure in failures]
    if law is not None and law not in broken:
        typer.echo(f"{law}, for which this case was saved, is not broken this time")
    typer.echo(f"BROKEN: {', '.join(broken)}" if broken else f"{len(judged)} laws judged, all hold")
