"""Plain lines, for logs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import typer

from shardproof.events import CaseJudged, Event, FailureFound, PinnedJudged, RunFinished, RunStarted, Shrinking
from shardproof.reporters.words import finished, found, started

# Seconds between two lines that only say that the run goes on.
_EVERY = 10.0


@dataclass(slots=True)
class Plain:
    """Says what happens, and now and then that nothing did."""

    shrinking: str = ""
    said: float = field(default_factory=time.monotonic)

    def __call__(self, event: Event) -> None:
        """Hear of one event."""
        match event:
            case RunStarted():
                typer.echo(started(event))
            case PinnedJudged(deviation, deviates):
                typer.echo(f"known deviation from {deviation.law}: {'still there' if deviates else 'GONE'}")
            case CaseJudged(number) if time.monotonic() - self.said > _EVERY:
                self.said = time.monotonic()
                typer.echo(f"{number} cases")
            case Shrinking(law) if law != self.shrinking:
                self.shrinking = law
                typer.echo(f"{law} is broken; looking for the smallest case")
            case FailureFound(finding):
                typer.echo(f"\n{found(finding)}")
            case RunFinished(result):
                for line in finished(result):
                    typer.echo(line)
