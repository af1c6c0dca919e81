"""The files of one generation of ranks, seen from the parent: what each rank printed, its stacks, its progress."""

from __future__ import annotations

import mmap
import os
import shutil
from pathlib import Path

from shardproof.ranks.birth import NOTE_WORDS, NOTHING_NOTED, notes_file, rank_file

_KINDS = ("out", "err", "stack")
_TAIL = 8 << 10


class Files:
    """Makes the files in `directory`, which it owns."""

    def __init__(self, directory: str, world_size: int) -> None:
        """Make the directory, private, and every rank's files."""
        Path(directory).mkdir(mode=0o700)
        self.directory = directory
        self._open = {
            (rank, kind): os.open(rank_file(directory, rank, kind), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            for rank in range(world_size)
            for kind in _KINDS
        }
        size = NOTE_WORDS * 8 * world_size
        with notes_file(directory).open("w+b") as file:
            file.truncate(size)
            self._mapped = mmap.mmap(file.fileno(), size)
        self._notes = memoryview(self._mapped).cast("q")

    def size(self, rank: int, kind: str) -> int:
        """Bytes written to that file since it was last taken."""
        return os.fstat(self._open[rank, kind]).st_size

    def take(self, rank: int, kind: str) -> str:
        """The end of what was written to that file since it was last taken."""
        descriptor, size = self._open[rank, kind], self.size(rank, kind)
        if not size:
            return ""
        text = os.pread(descriptor, _TAIL, max(0, size - _TAIL)).decode("utf-8", "backslashreplace")
        os.ftruncate(descriptor, 0)
        return text

    def noted(self, rank: int) -> int | None:
        """What that rank noted last since `forget`."""
        index = self._notes[NOTE_WORDS * rank]
        return None if index == NOTHING_NOTED else index

    def forget(self, rank: int) -> None:
        """Drop what that rank noted."""
        self._notes[NOTE_WORDS * rank] = NOTHING_NOTED

    def close(self) -> None:
        """Close and remove all of it."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._notes.release()
        self._mapped.close()
        shutil.rmtree(self.directory, ignore_errors=True)
