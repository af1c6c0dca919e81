"""Names that a user may have mistyped."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from shardproof.errors import UsageError


def nearest(name: str, known: Sequence[str]) -> str:
    """ "did you mean X?" for the known name that is most alike; empty where none is."""
    found = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return f"did you mean {found[0]}?" if found else ""


def unknown(what: str, name: str, known: Sequence[str], *, where: str = "") -> UsageError:
    """The error for a name that is none of the known ones."""
    return UsageError(
        f"there is no {what} {name!r}",
        where=where,
        expected=f"one of {', '.join(known)}" if known else "",
        todo=nearest(name, known),
    )
