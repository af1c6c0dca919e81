"""Keeps the ranks busy: while they run a case, the one before it is judged and the next one drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from shardproof.case import Case

if TYPE_CHECKING:
    from shardproof.running import Verdict


class Prepared(Protocol):
    """A case that the ranks have not heard of yet."""

    def begin(self) -> None:
        """Have the ranks begin with it."""

    def wait(self) -> None:
        """Until the ranks are free for another case."""

    def verdict(self) -> Verdict:
        """What the laws say of it."""


class Runner(Protocol):
    """What runs cases, one at a time."""

    def prepare(self, case: Case, *, twice: bool | None = None, only: Sequence[str] = ()) -> Prepared:
        """A case, ready to be run."""


@dataclass(slots=True)
class Ahead:
    """Runs case after case, each with these `twice` and `only`. Nothing else may use the ranks until `rest`."""

    engine: Runner
    only: Sequence[str] = ()
    twice: bool | None = None
    started: int = 0
    _running: Prepared | None = field(default=None, init=False)

    def put(self, case: Case) -> Verdict | None:
        """Have the ranks begin with a case; the verdict of the one put before it."""
        running, before = self.engine.prepare(case, twice=self.twice, only=self.only), self._running
        if before is not None:
            before.wait()
        running.begin()
        self._running = running
        self.started += 1
        return before.verdict() if before is not None else None

    def rest(self) -> Verdict | None:
        """The verdict of the last case that was put, where it has not been told; the ranks are free after it."""
        last, self._running = self._running, None
        if last is None:
            return None
        last.wait()
        return last.verdict()

    def verdicts(self, cases: Iterable[Case]) -> Iterator[Verdict]:
        """The verdicts of all of these, in order."""
        for case in cases:
            verdict = self.put(case)
            if verdict is not None:
                yield verdict
        verdict = self.rest()
        if verdict is not None:
            yield verdict
