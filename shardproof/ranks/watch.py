"""One run, watched: send it, hear every rank, and come back in bounded time whatever they do."""

from __future__ import annotations

import contextlib
import math
import select
import signal
import time
from collections.abc import Sequence
from typing import Any

from shardproof.ranks import process
from shardproof.ranks.crew import Crew
from shardproof.ranks.nursery import PoolError
from shardproof.ranks.patience import Patience
from shardproof.ranks.report import Ended, RankReport
from shardproof.ranks.wire import Closed, Malformed, Message, Outgoing

_LONGEST_WAIT = 3600.0  # in one call: its milliseconds are a C int
_DUMP_SECONDS = 2.0
_DUMP_SETTLES = 0.05


class Watch:
    """One run on some ranks of a crew. `clean` afterwards says whether the crew can be used again."""

    def __init__(
        self, crew: Crew, ranks: tuple[int, ...], buffers: Sequence[memoryview], deadline: float, grace: float
    ) -> None:
        """Send the encoded run to every rank.

        `deadline` counts from now; once a rank ended badly the others get `grace` more, while they idle.
        """
        self._crew, self._ranks = crew, ranks
        self._poll = crew.poll(ranks)
        self._patience = Patience(deadline, grace)
        self._activity: dict[int, process.Activity | None] = {}
        self._unfinished = set(ranks)
        self._unsent: dict[int, Outgoing] = {}
        self._reports: dict[int, RankReport] = {}
        self.clean = True
        for rank in ranks:
            crew.files.forget(rank)
            message = Outgoing(buffers)
            if not self._push(rank, message):
                self._unsent[rank] = message
                self._poll.modify(crew.sockets[rank], select.POLLIN | select.POLLOUT)

    def reports(self) -> tuple[RankReport, ...]:
        """Wait for every rank; how each ended, in order."""
        try:
            self._attend_all(0.0)  # whoever answered in time has, however late this is asked
            while self._unfinished and (self._patience.left > 0 or self._goes_on()):
                self._attend_all(min(max(self._patience.left, 0.0), _LONGEST_WAIT))
            if self._unfinished:
                self._give_up()
        except PoolError as gone:
            self._lose(str(gone))
        return tuple(self._reports[rank] for rank in self._ranks)

    def _attend_all(self, seconds: float) -> None:
        for descriptor, event in self._poll.poll(math.ceil(seconds * 1000)):
            self._attend(descriptor, event)

    def _push(self, rank: int, message: Outgoing) -> bool:
        """Send what the rank's socket takes; whether there is nothing left to send."""
        try:
            return message.push(self._crew.sockets[rank])
        except Closed:
            return True  # reading tells the rest

    def _attend(self, descriptor: int, event: int) -> None:
        rank = self._crew.rank_at.get(descriptor)
        if rank is None:
            for news in self._crew.events(0.0):
                self._ended(news)
            return
        if event & select.POLLOUT and (rank not in self._unsent or self._push(rank, self._unsent[rank])):
            self._unsent.pop(rank, None)
            self._poll.modify(descriptor, select.POLLIN)
        if event & ~select.POLLOUT:
            self._hear(rank)

    def _hear(self, rank: int) -> None:
        """Read the rank's answer as far as it came."""
        try:
            message = self._crew.hear(rank)
        except Closed:
            self._ignore(rank)
            self._hurry(f"rank {rank} closed its socket")
        except Malformed as error:
            self._ignore(rank)
            self._finish(rank, "raised", error=f"did not answer properly: {error}")
        else:
            if message is not None and rank in self._unfinished:
                self._answered(rank, message)
            elif message is not None:
                self._ignore(rank)  # it answered twice

    def _ignore(self, rank: int) -> None:
        """Read no more from a rank that does not keep to the rules."""
        self.clean = False
        with contextlib.suppress(KeyError):
            self._poll.unregister(self._crew.sockets[rank])

    def _answered(self, rank: int, message: Message) -> None:
        match message.body:
            case {"ended": "done", "value": value, "seconds": float(seconds), "spent": bool(spent)}:
                self.clean &= not spent
                self._finish(rank, "done", value=value, blobs=message.blobs, seconds=seconds)
            case {"ended": "raised", "error": str(error), "stack": str(stack), "seconds": float(seconds), **rest}:
                self.clean &= rest.get("contained") is True and rest.get("spent") is False
                more = {"value": rest.get("value"), "blobs": message.blobs, "error": error, "stack": stack}
                self._finish(rank, "raised", seconds=seconds, **more)
            case body:
                self._ignore(rank)
                self._finish(rank, "raised", error=f"did not answer properly: {body!r:.200}")

    def _ended(self, news: dict[str, Any]) -> None:
        """The helper says that a rank's process is gone."""
        if news["event"] != "ended":
            return
        rank, self.clean = news["rank"], False
        if rank in self._unfinished:
            self._hear(rank)  # it may have answered before
        if "signal" in news:
            stack = self._crew.files.take(rank, "stack")
            self._finish(rank, "signalled", signal=news["signal"], stack=stack)
        else:
            self._finish(rank, "exited", exit_code=news["exit_code"])

    def _finish(
        self, rank: int, ended: Ended, *, seconds: float | None = None, **more: Any
    ) -> None:  # fields of RankReport
        """Keep the first end of a rank; a bad one gives the others no more than the grace period."""
        if rank not in self._unfinished:
            return
        self._unfinished.discard(rank)
        if self._unsent.pop(rank, None):
            self.clean = False  # it ended before it had heard all
        files = self._crew.files
        report = self._reports[rank] = RankReport(
            rank=rank,
            ended=ended,
            stdout=files.take(rank, "out"),
            stderr=files.take(rank, "err"),
            noted=files.noted(rank),
            seconds=self._patience.elapsed if seconds is None else seconds,
            **more,
        )
        if ended != "done":
            self._hurry(f"rank {rank} {report.headline}")

    def _hurry(self, what: str) -> None:
        if not self._patience.hurried:
            self._activity = self._look()
        self._patience.hurry(what)

    def _goes_on(self) -> bool:
        """Give ranks that work another grace period: they do not wait for the one that was lost, or not yet."""
        before, self._activity = self._activity, self._look()
        works = any(now and now.goes_on_from(before.get(rank)) for rank, now in self._activity.items())
        return self._patience.hurried and works and self._patience.renew()

    def _look(self) -> dict[int, process.Activity | None]:
        return {rank: process.activity(self._crew.pids[rank]) for rank in self._unfinished}

    def _give_up(self) -> None:
        """Have the ranks that are not finished write their stacks, and count them as hung."""
        self.clean = False
        late, why = sorted(self._unfinished), self._patience.why
        self._crew.nursery.dump(late)
        self._let_stacks_settle(late)
        for rank in late:
            self._finish(rank, "hung", error=why, stack=self._crew.files.take(rank, "stack"))

    def _let_stacks_settle(self, ranks: Sequence[int]) -> None:
        """Wait until every rank wrote something and none writes more; a stopped process never does."""
        until, before = time.monotonic() + _DUMP_SECONDS, [0] * len(ranks)
        while time.monotonic() < until:
            time.sleep(_DUMP_SETTLES)
            sizes = [self._crew.files.size(rank, "stack") for rank in ranks]
            if sizes == before and all(sizes):
                return
            before = sizes

    def _lose(self, why: str) -> None:
        """The helper is gone, and the ranks with it."""
        self.clean = False
        for rank in sorted(self._unfinished):
            self._finish(rank, "signalled", signal=signal.SIGKILL, error=why)
