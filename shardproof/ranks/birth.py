"""What the helper and each rank are told when they are born, and the files ranks share with the parent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NOTE_WORDS = 8  # int64s a rank: a cache line of its own
NOTHING_NOTED = -(1 << 63)


@dataclass(frozen=True, slots=True)
class Setup:
    """What the helper is told on its command line. `control` is the descriptor of its channel."""

    control: int
    directory: str
    path: tuple[str, ...]
    preload: tuple[str, ...]
    fork: bool


@dataclass(frozen=True, slots=True)
class Birth:
    """One rank of one generation. `control` is the descriptor of its socket, `directory` the generation's own.

    `path` and `preload` are for a spawned rank, which has to set up what a forked one finds.
    """

    rank: int
    world_size: int
    device: str
    default_group: bool
    directory: str
    control: int
    path: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()

    def file(self, kind: str) -> Path:
        """Where this rank's "out", "err" and "stack" go."""
        return rank_file(self.directory, self.rank, kind)


def rank_file(directory: str, rank: int, kind: str) -> Path:
    """The file of `kind` ("out", "err", "stack") of a rank."""
    return Path(directory, f"rank{rank}.{kind}")


def notes_file(directory: str) -> Path:
    """The file that all ranks map: NOTE_WORDS int64s each, of which the first is what was noted last."""
    return Path(directory, "notes")


def store_file(directory: str) -> Path:
    """The file through which the ranks of one generation find each other."""
    return Path(directory, "store")
