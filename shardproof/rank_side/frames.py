"""Where in an implementation an error was raised."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path

_OURS = Path(__file__).parent
_LIBRARIES = (sysconfig.get_path("stdlib"), "site-packages", "dist-packages", "<")
_MOST = 4


def frames_outside(error: BaseException) -> tuple[str, ...]:
    """The innermost frames as "file:line in function", outermost first, without the harness's and libraries' own.

    Where there are no others: the innermost frame of all, so that an error of the harness itself shows as one.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if Path(f.filename).parent != _OURS and not any(name in f.filename for name in _LIBRARIES)]
    return tuple(f"{_short(f.filename)}:{f.lineno} in {f.name}" for f in (own or frames[-1:])[-_MOST:])


def _short(file: str) -> str:
    """Relative to the working folder where it lies in it."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
