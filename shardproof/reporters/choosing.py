"""A progress bar for a terminal, plain lines for everything else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from shardproof.events import Listener


@contextmanager
def reporter() -> Iterator[Listener]:
    """The reporter for where standard output goes."""
    if sys.stdout.isatty():
        from shardproof.reporters.terminal import Terminal

        with Terminal.open() as terminal:
            yield terminal
    else:
        from shardproof.reporters.plain import Plain

        yield Plain()
