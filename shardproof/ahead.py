"""Keeps the ranks busy: while they run a case, the one before it is judged and the next one drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from shardproof.case import Case

if TYPE_CHECKING:
    from shardproof.engine import Verdict


class Started(Protocol):
    """A case that ranks are at."""

    def wait(self) -> object:
        """Until the ranks are free for another case."""

    def verdict(self) -> Verdict:
        """What the laws say of it."""


class Starter(Protocol):
    """What runs cases, one at a time."""

    def start(self, case: Case, *, twice: bool | None = None, only: Sequence[str] = ()) -> Started:
        """Have the ranks begin with a case."""


@dataclass(slots=True)
class Ahead:
    """Runs case after case, each with these `twice` and `only`. Nothing else may use the ranks until `rest`."""

    engine: Starter
    only: Sequence[str] = ()
    twice: bool | None = None
    started: int = 0
    _running: Started | None = field(default=None, init=False)

    def put(self, case: Case) -> Verdict | None:
        """Have the ranks begin with a case; the verdict of the one put before it."""
        before = self._running
        if before is not None:
            before.wait()
        self._running = self.engine.start(case, twice=self.twice, only=self.only)
        self.started += 1
        return before.verdict() if before is not None else None

    def rest(self) -> Verdict | None:
        """The verdict of the last case that was put, where it has not been told; the ranks are free after it."""
        last, self._running = self._running, None
        return last.verdict() if last is not None else None

    def verdicts(self, cases: Iterable[Case]) -> Iterator[Verdict]:
        """The verdicts of all of these, in order."""
        for case in cases:
            verdict = self.put(case)
            if verdict is not None:
                yield verdict
        verdict = self.rest()
        if verdict is not None:
            yield verdict
