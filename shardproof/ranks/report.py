"""What became of one rank in one run."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Any, Literal

Ended = Literal["done", "raised", "exited", "signalled", "hung"]


@dataclass(frozen=True, slots=True)
class RankReport:
    """How a rank ended and what it left.

    ended       done: the entry returned `value` and `blobs`; raised: it raised, the process lives; exited and
                signalled: the process is gone, with `exit_code` or `signal`; hung: it did not finish in time
    error       one line or a few: the exception, or why the rank is taken for hung
    stack       the traceback (raised), or every thread's Python stack (hung, and crashed where it could be had)
    stdout      the end of what it printed in this run; stderr likewise. C++ messages are included
    noted       the last progress it noted with `context.note` in this run, None where it noted nothing
    seconds     how long it ran
    """

    rank: int
    ended: Ended
    value: Any = None
    blobs: tuple[bytearray, ...] = ()
    error: str = ""
    stack: str = ""
    stdout: str = ""
    stderr: str = ""
    exit_code: int | None = None
    signal: int | None = None
    noted: int | None = None
    seconds: float = 0.0

    @property
    def story(self) -> str:
        """The whole of it as text: a headline, then what it left, indented."""
        lines = [f"rank {self.rank} {self.headline} after {self.seconds:.2f} s"]
        if self.noted is not None:
            lines.append(f"  last noted: {self.noted}")
        for name, text in (("stack", self.stack), ("stdout", self.stdout), ("stderr", self.stderr)):
            if text:
                lines += [f"  {name}:", *(f"    {line}" for line in text.rstrip().splitlines())]
        return "\n".join(lines)

    @property
    def headline(self) -> str:
        """How it ended, in a few words."""
        how: str = self.ended
        if self.exit_code is not None:
            how += f" with code {self.exit_code}"
        if self.signal is not None:
            how += f" by {signal_name(self.signal)}"
        return f"{how} ({self.error})" if self.error else how


def signal_name(number: int) -> str:
    """SIGABRT and so on; the number where the system has no name for it."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
