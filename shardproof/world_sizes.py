"""World sizes as a user writes them: "1-8", "1,2,4", "1-4,8"."""

from __future__ import annotations

import re

from shardproof.errors import UsageError

LARGEST = 64
_PART = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?")


def parse_world_sizes(text: str, where: str = "--world-sizes") -> tuple[int, ...]:
    """The sizes in increasing order, each once. Raises UsageError for anything else than sizes from 1 to 64."""
    found: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        low, high = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
        if not 1 <= low <= high <= LARGEST:
            raise UsageError(
                "these are no world sizes",
                where=where,
                observed=repr(part.strip() or text),
                expected=f"numbers and ranges from 1 to {LARGEST}",
                todo='for example "1-8", "1,2,4" or "1-4,8"',
            )
        found.update(range(low, high + 1))
    return tuple(sorted(found))
