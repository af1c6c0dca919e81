"""One search for all tests of a session, also where pytest-xdist spreads them over processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock


@dataclass(frozen=True, slots=True)
class Told:
    """One law's outcome as a test reports it: held, broken, deviates or not judged, and the failure or the reason.

    The law named "*" is the run itself.
    """

    outcome: str
    text: str = ""


def once(folder: Path, make: Callable[[], dict[str, Told]]) -> dict[str, Told]:
    """What `make` returns, made by the first process that asks and read from `folder` by all others."""
    file = folder / "conformance.json"
    with FileLock(f"{file}.lock"):
        if not file.exists():
            told = make()
            file.write_text(json.dumps({law: asdict(one) for law, one in told.items()}))
            return told
    return {law: Told(**one) for law, one in json.loads(file.read_text()).items()}
