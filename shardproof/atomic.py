"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from shardproof.errors import UsageError


def write_text(path: Path, text: str) -> None:
    """Write a file by way of a neighbour that takes its place. Raises UsageError where the folder cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(beside, 0o644)
            os.replace(beside, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(beside)
            raise
    except OSError as error:
        raise UsageError(
            "this file cannot be written", where=str(path), observed=error.strerror or str(error)
        ) from error
