"""The parent's side of one generation of ranks, from birth to the first run that breaks them."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections.abc import Iterable
from typing import Any

from shardproof.errors import CouldNotJudge
from shardproof.ranks.files import Files
from shardproof.ranks.nursery import Nursery, PoolError
from shardproof.ranks.report import signal_name
from shardproof.ranks.wire import Closed, Malformed, Message, Receiver

_START_SECONDS = 180.0
_KILL_SECONDS = 10.0


class Crew:
    """The ranks of one generation. `sockets`, `receivers` and `pids` are by rank; `loaded` says what is where."""

    def __init__(self, nursery: Nursery, generation: int, world_size: int, device: str, default_group: bool) -> None:
        """Ask the nursery for the ranks; they get ready while the caller does something else. Raises PoolError."""
        self.nursery, self._generation = nursery, generation
        self.files = Files(os.path.join(nursery.directory, str(generation)), world_size)
        pairs = [socket.socketpair() for _ in range(world_size)]
        self.sockets = [ours for ours, _ in pairs]
        self.rank_at = {ours.fileno(): rank for rank, ours in enumerate(self.sockets)}
        self.receivers = [Receiver(ours) for ours in self.sockets]
        self.pids: tuple[int, ...] = ()
        self._awaited = set(range(world_size))
        self._coming = self._watching(range(world_size))
        self._polls: dict[tuple[int, ...], select.poll] = {}
        self.loaded: set[tuple[str, int]] = set()
        birth = {
            "world_size": world_size,
            "device": device,
            "default_group": default_group,
            "directory": self.files.directory,
        }
        for ours in self.sockets:
            ours.setblocking(False)
        try:
            nursery.start(generation, birth, [theirs.fileno() for _, theirs in pairs])
        except PoolError:
            self.close()
            raise
        finally:
            for _, theirs in pairs:
                theirs.close()

    def poll(self, ranks: tuple[int, ...]) -> select.poll:
        """Watches these ranks and the nursery; made once."""
        if ranks not in self._polls:
            self._polls[ranks] = self._watching(ranks)
        return self._polls[ranks]

    def _watching(self, ranks: Iterable[int]) -> select.poll:
        poll = select.poll()
        poll.register(self.nursery.descriptor, select.POLLIN)
        for rank in ranks:
            poll.register(self.sockets[rank], select.POLLIN)
        return poll

    def wait_until_ready(self) -> None:
        """Wait until every rank has joined the others.

        Raises CouldNotJudge with a rank's reason where the machine cannot do it, else PoolError with what it said.
        """
        until = time.monotonic() + _START_SECONDS
        while self._awaited or not self.pids:
            left = until - time.monotonic()
            if left <= 0:
                raise PoolError(f"ranks {sorted(self._awaited)} were not ready within {_START_SECONDS:g} s")
            for descriptor, _ in self._coming.poll(left * 1000):
                if descriptor == self.nursery.descriptor:
                    self._check_born(self.events(0.0))
                else:
                    self._hear_ready(self.rank_at[descriptor])

    def _hear_ready(self, rank: int) -> None:
        """Read what a rank says first, if it is there. Why it ended otherwise is for the helper to say."""
        try:
            message = self.receivers[rank].pull()
        except (Closed, Malformed):
            with contextlib.suppress(KeyError):
                self._coming.unregister(self.sockets[rank])
            return
        match message and message.body:
            case None:
                return
            case {"ready": True}:
                self._awaited.discard(rank)
            case {"cannot": str(reason)}:
                raise CouldNotJudge(reason)
            case body:
                raise PoolError(f"rank {rank} could not be started:\n{body}")

    def _check_born(self, events: list[dict[str, Any]]) -> None:
        for event in events:
            if event["event"] == "started":
                self.pids = tuple(event["pids"])
            if event["event"] == "ended":
                rank, code = event["rank"], event.get("exit_code")
                self._hear_ready(rank)
                how = signal_name(event["signal"]) if code is None else f"code {code}"
                said = self.files.take(rank, "err") or self.nursery.said()
                raise PoolError(f"rank {rank} ended ({how}) before it could be used:\n{said}".rstrip())

    def standing(self) -> bool:
        """Whether nothing has happened to ranks and helper that forbids another run."""
        happened = dict(self.poll(tuple(range(len(self.sockets)))).poll(0))
        if self._awaited or not self.pids:  # a rank that is getting ready may say so, or why not
            return not happened.get(self.nursery.descriptor, 0) & select.POLLHUP
        return not happened

    def events(self, seconds: float) -> list[dict[str, Any]]:
        """What the helper tells of this generation next. Raises PoolError when it is gone."""
        return [event for event in self.nursery.events(seconds) if event.get("generation") == self._generation]

    def hear(self, rank: int) -> Message | None:
        """The rank's answer, if all of it is there. Raises Closed, Malformed."""
        return self.receivers[rank].pull()

    def end(self) -> None:
        """Kill every rank and wait until they are gone. Raises PoolError where that does not work."""
        self.nursery.end()
        until = time.monotonic() + _KILL_SECONDS
        while (left := until - time.monotonic()) > 0:
            if any(event["event"] == "over" for event in self.events(left)):
                return
        raise PoolError(f"ranks that were killed were not gone within {_KILL_SECONDS:g} s")

    def close(self) -> None:
        """Give sockets and files up. The nursery ends the processes."""
        for ours in self.sockets:
            ours.close()
        self.files.close()
