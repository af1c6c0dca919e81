"""A progress bar, with failures above it as they are found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from shardproof.events import CaseJudged, Event, FailureFound, PinnedJudged, RunFinished, RunStarted, Shrinking
from shardproof.reporters.words import finished, found, started


@dataclass(slots=True)
class Terminal:
    """One bar of cases; what it says while a case gets smaller is which law is broken."""

    progress: Progress
    bar: TaskID
    broken: int = 0

    @classmethod
    @contextmanager
    def open(cls) -> Iterator[Terminal]:
        """A bar that is there until the run is over."""
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn())
        console = Console(highlight=False)
        with Progress(*columns, MofNCompleteColumn(), TimeElapsedColumn(), console=console, transient=True) as progress:
            yield cls(progress, progress.add_task("starting ranks", total=None))

    def __call__(self, event: Event) -> None:
        """Hear of one event."""
        match event:
            case RunStarted(budget=budget):
                self._print(started(event))
                self.progress.update(self.bar, total=budget.examples, description="cases")
            case PinnedJudged(deviation, deviates) if not deviates:
                self._print(f"known deviation from {deviation.law}: GONE", "red")
            case CaseJudged(number):
                laws = f", {self.broken} laws broken" if self.broken else ""
                self.progress.update(self.bar, completed=number, description=f"cases{laws}")
            case Shrinking(law, attempts):
                self.progress.update(self.bar, description=f"{law} is broken; smallest case, attempt {attempts}")
            case FailureFound(finding):
                self.broken += 1
                self._print(found(finding))
            case RunFinished(result):
                *lines, last = finished(result)
                self._print("\n".join(lines))
                self._print(last, {"held": "green", "broken": "red"}.get(result.outcome, "yellow"))

    def _print(self, text: str, style: str = "") -> None:
        """As it is: what comes from a case or an implementation is never read as markup."""
        self.progress.console.print(Text(text, style=style), soft_wrap=True)
