"""What an entry is given on its rank."""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from shardproof.ranks.birth import NOTE_WORDS, Birth, notes_file
from shardproof.ranks.wire import Blob

if TYPE_CHECKING:
    import torch.distributed as dist

_OWN_NAMES = 1 << 256  # far above any counter, so that a group named by its ranks is never named twice
_NAMES_A_RUN = 1 << 20


class Failed(Exception):  # noqa: N818  # how a run ended, worded as the report words it
    """Raised by an entry: the run ended in an error, but `value` and `blobs` are to be reported as well.

    Raise it `from` the error; the report is "raised" and tells that error. `contained` says that no rank can be
    left waiting or out of step by it: where every rank answered, the ranks are then kept for the next run.
    """

    def __init__(self, value: object = None, blobs: Sequence[Blob] = (), *, contained: bool) -> None:
        """`value` must be JSON, as if it were returned."""
        super().__init__("the entry ended in an error")
        self.value, self.blobs, self.contained = value, blobs, contained


class Context:
    """A rank as an entry sees it.

    `rank` counts in the pool of `pool_size` ranks, `device` is "cpu" or "cuda:1", `deadline` is how many seconds
    the run has from its start.
    """

    def __init__(self, birth: Birth, device: str) -> None:
        """One a rank process, for all runs. The default group must exist."""
        self.rank, self.pool_size, self.device, self.deadline = birth.rank, birth.world_size, device, 0.0
        self._default_group = birth.default_group
        self._groups: dict[tuple[int, ...], dist.ProcessGroup] = {}
        self._run = 0
        with notes_file(birth.directory).open("r+b") as file:
            self._notes = memoryview(mmap.mmap(file.fileno(), 0)).cast("q")
        self._slot = NOTE_WORDS * birth.rank

    def note(self, index: int) -> None:
        """Say how far this run is (any int64). Costs one store, and the parent reads it even after a crash."""
        self._notes[self._slot] = index

    def group(self, ranks: Sequence[int]) -> dist.ProcessGroup:
        """The process group of these pool ranks, in increasing order; the default group where they are all of them.

        Made on first use and kept; groups that are made after it are named alike on all of these ranks. Every rank of
        the group has to ask for it, groups that overlap in the same order.
        Raises ValueError where `ranks` are not increasing, not in the pool, or without this rank.
        """
        key = tuple(ranks)
        if key not in self._groups:
            self._groups[key] = self._make(key)
        self._agree(key)
        return self._groups[key]

    def begin(self, run: int) -> None:
        """Run number `run` starts: groups that an implementation makes in it have names of their own."""
        self._run = run
        self._agree(())

    def _agree(self, ranks: tuple[int, ...]) -> None:
        """Let groups that are made next have equal names on all these ranks, whatever each of them made before."""
        from torch.distributed import distributed_c10d

        number = (self._run << self.pool_size) + sum(1 << rank for rank in ranks)
        distributed_c10d._world.group_count = number * _NAMES_A_RUN

    def _make(self, ranks: tuple[int, ...]) -> dist.ProcessGroup:
        import torch.distributed as dist

        if list(ranks) != sorted(set(ranks)) or not set(ranks) <= set(range(self.pool_size)):
            raise ValueError(f"a group of ranks {ranks}: expected increasing ranks below {self.pool_size}")
        if self.rank not in ranks:
            raise ValueError(f"a group of ranks {ranks} asked for on rank {self.rank}")
        if len(ranks) == self.pool_size:
            return world_group()
        if self._default_group:
            raise ValueError(f"a group of ranks {ranks} in a pool whose runs use the default group")
        with _named(_OWN_NAMES + sum(1 << rank for rank in ranks)):
            made: dist.ProcessGroup = dist.new_group(list(ranks))
        return made


@contextlib.contextmanager
def _named(count: int) -> Iterator[None]:
    """Decide the name torch gives the next group: it counts groups, and ranks that made different ones disagree."""
    from torch.distributed import distributed_c10d

    before = distributed_c10d._world.group_count
    distributed_c10d._world.group_count = count
    try:
        yield
    finally:
        distributed_c10d._world.group_count = before


def world_group() -> dist.ProcessGroup:
    """The default group as it is now. Raises RuntimeError where there is none any more."""
    import torch.distributed as dist

    if dist.group.WORLD is None:
        raise RuntimeError("the default process group was destroyed")
    return dist.group.WORLD
