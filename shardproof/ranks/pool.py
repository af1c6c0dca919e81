"""A pool of ranks that serves run after run, at every world size up to its own, and always comes back."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from shardproof.errors import UsageError
from shardproof.ranks.crew import Crew
from shardproof.ranks.nursery import Nursery, PoolError
from shardproof.ranks.report import RankReport
from shardproof.ranks.watch import Watch
from shardproof.ranks.wire import Blob, encode

DEVICES = ("cpu", "cuda")
MAX_WORLD_SIZE = 128  # sockets of all ranks travel in one message, which carries 253
_LOAD_SECONDS = 60.0


class Pool:
    """`world_size` ranks on this machine, each a process of its own, with gloo ("cpu") or NCCL ("cuda").

    Making a pool returns at once; the first run waits until the ranks are there. After a run that any rank did not
    end well, all ranks are replaced. A pool is for one run at a time; several pools may live side by side.
    """

    def __init__(  # each is a choice of its own, all but one by keyword
        self,
        world_size: int,
        *,
        device: str = "cpu",
        preload: Sequence[str] = (),
        default_group: bool = False,
        fork: bool | None = None,
        grace: float = 1.0,
    ) -> None:
        """Start the helper that ranks are born from.

        preload        modules that every rank finds imported; they must not run tensor operations on import
        default_group  runs take all ranks, and their only group is the default one
        fork           fork ranks from the helper (quick) or start fresh programs; default: fork, except for CUDA
        grace          seconds that ranks have left, unless they are at work, once a peer raised or was lost
        """
        if device not in DEVICES:
            raise UsageError("unknown device", observed=repr(device), expected=" or ".join(DEVICES))
        self._device, self._preload, self._default_group = device, tuple(preload), default_group
        self._fork = device == "cpu" if fork is None else fork
        self._grace = grace
        self._lock = threading.RLock()
        self._runs = self._generation = 0
        # A run that was started: it is watched, or could not be run and has its reports.
        self._under_way: Watch | tuple[RankReport, ...] | None = None
        self._crew: Crew | None = None
        self._closed = False
        self.world_size = _checked(world_size)
        self._nursery = Nursery(self._preload, fork=self._fork)
        self._end_nursery = weakref.finalize(self, self._nursery.close)
        self._hire()

    def run(
        self,
        entry: str,
        payload: object = None,
        blobs: Sequence[Blob] = (),
        *,
        ranks: Sequence[int] | None = None,
        deadline: float = 10.0,
    ) -> tuple[RankReport, ...]:
        """Run `entry` on `ranks` (default: all) with the same JSON payload and blobs; a report for each, in order.

        `entry` is "pkg.mod:function" or "/path/file.py:function", called as function(context, payload, blobs), and
        returns (JSON value, blobs). It is loaded once a rank, before `deadline` seconds start. Whatever the entry
        does is in the reports. Raises UsageError for ranks that the pool does not have, TypeError or ValueError for
        a payload that is no JSON, PoolError where ranks cannot be started, CouldNotJudge where this machine cannot.
        """
        with self._lock:
            self.start(entry, payload, blobs, ranks=ranks, deadline=deadline)
            return self.finish()

    def start(
        self,
        entry: str,
        payload: object = None,
        blobs: Sequence[Blob] = (),
        *,
        ranks: Sequence[int] | None = None,
        deadline: float = 10.0,
    ) -> None:
        """The first half of `run`: the ranks are told, and are at it on return. `finish` must follow.

        Raises as `run` does, and UsageError where a run that was started has not been finished.
        """
        chosen = self._chosen(ranks)
        if not deadline > 0:  # also where it is no number
            raise UsageError("unusable deadline", observed=str(deadline), expected="seconds above 0")
        with self._lock:
            self._check_idle()
            self._runs += 1
            body = {"do": "run", "run": self._runs, "entry": entry, "payload": payload, "deadline": deadline}
            buffers = encode(body, blobs)
            crew = self._standing_crew()
            with self._dismissed_on_error():
                failed = self._load(crew, entry, chosen, deadline)
                self._under_way = failed or Watch(crew, chosen, buffers, deadline, self._grace)

    def finish(self) -> tuple[RankReport, ...]:
        """The second half of `run`: wait for the ranks. Raises UsageError where no run was started."""
        with self._lock:
            under_way, self._under_way = self._under_way, None
            if under_way is None:
                raise UsageError("no run to finish", expected="one that was started, on ranks that were kept since")
            if not isinstance(under_way, Watch):
                return under_way
            with self._dismissed_on_error():
                return self._watched(under_way)

    def _check_idle(self) -> None:
        if self._under_way is not None:
            raise UsageError("a run is under way", expected="a pool at rest", todo="finish that run first")

    @contextmanager
    def _dismissed_on_error(self) -> Iterator[None]:
        """An interrupt, most likely: the ranks are somewhere in the middle of a run."""
        try:
            yield
        except BaseException:
            self._dismiss()
            raise

    def _load(self, crew: Crew, entry: str, ranks: tuple[int, ...], deadline: float) -> tuple[RankReport, ...] | None:
        """Have the entry loaded where it is not yet; what is to be reported of a run where that does not work."""
        lacking = tuple(rank for rank in ranks if (entry, rank) not in crew.loaded)
        if not lacking:
            return None
        load, bound = encode({"do": "load", "entry": entry}), max(deadline, _LOAD_SECONDS)
        loaded = {report.rank: report for report in self._watched(Watch(crew, lacking, load, bound, bound))}
        if crew is not self._crew or any(report.ended != "done" for report in loaded.values()):
            return tuple(_not_run(rank, loaded.get(rank)) for rank in ranks)
        crew.loaded.update((entry, rank) for rank in lacking)
        return None

    def _watched(self, watch: Watch) -> tuple[RankReport, ...]:
        reports = watch.reports()
        if not watch.clean:
            self._dismiss()
            self._hire()
        return reports

    def _chosen(self, ranks: Sequence[int] | None) -> tuple[int, ...]:
        everyone = tuple(range(self.world_size))
        chosen = everyone if ranks is None else tuple(ranks)
        if not chosen or list(chosen) != sorted(set(chosen)) or not set(chosen) <= set(everyone):
            raise UsageError("no such ranks", observed=str(chosen), expected=f"increasing, below {self.world_size}")
        if self._default_group and chosen != everyone:
            raise UsageError("a default-group run takes every rank", observed=str(chosen), expected=str(everyone))
        return chosen

    def resize(self, world_size: int) -> None:
        """Have another number of ranks from the next run on, from the same helper."""
        with self._lock:
            self._check_idle()
            if world_size != self.world_size:
                self.world_size = _checked(world_size)
                self._dismiss()
                self._hire()

    def renew(self) -> None:
        """Have new ranks from the next run on, from the same helper."""
        with self._lock:
            self._check_idle()
            self._dismiss()
            self._hire()

    def _standing_crew(self) -> Crew:
        if self._closed:
            raise UsageError("the pool is closed")
        if not self._nursery.is_ours:
            raise UsageError("the pool belongs to the process that this one was forked from")
        if self._crew is not None and not self._crew.standing():
            self._dismiss()
        crew = self._crew or self._hire()
        try:
            crew.wait_until_ready()
        except BaseException:
            self._dismiss()
            raise
        return crew

    def _hire(self) -> Crew:
        """Ask for new ranks, from a new helper where there is none that can be asked."""
        try:
            self._crew = self._born()
        except PoolError:
            self._end_nursery()
            self._crew = self._born()
        return self._crew

    def _born(self) -> Crew:
        if not self._end_nursery.alive:
            self._nursery = Nursery(self._preload, fork=self._fork)
            self._end_nursery = weakref.finalize(self, self._nursery.close)
        self._generation += 1
        return Crew(self._nursery, self._generation, self.world_size, self._device, self._default_group)

    def _dismiss(self) -> None:
        """End the ranks, and the helper too where that does not work."""
        self._under_way = None
        crew, self._crew = self._crew, None
        if crew is None:
            return
        try:
            crew.end()
        except PoolError:
            self._end_nursery()
        except BaseException:
            self._end_nursery()
            raise
        finally:
            crew.close()

    def close(self) -> None:
        """End every process and remove every file of the pool; in a fork of its owner, nothing. Twice is as once."""
        with self._lock:
            self._closed, self._under_way = True, None
            crew, self._crew = self._crew, None
            self._end_nursery()
            if crew is not None and self._nursery.is_ours:
                crew.close()

    def __enter__(self) -> Self:
        """The pool itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close it."""
        self.close()


def _checked(world_size: int) -> int:
    if not 1 <= world_size <= MAX_WORLD_SIZE:
        raise UsageError("unusable world size", observed=str(world_size), expected=f"1 to {MAX_WORLD_SIZE}")
    return world_size


def _not_run(rank: int, loaded: RankReport | None) -> RankReport:
    """How a rank ended when the entry could not be loaded on all of them."""
    if loaded is not None and loaded.ended != "done":
        return loaded
    return RankReport(rank, "raised", error="was not run, as loading the entry failed on a rank or ended one")
