"""How long the ranks of one run are waited for, and the words for it when that is over."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(slots=True)
class Patience:
    """`deadline` seconds from now; once something ended a rank, no more than `grace` seconds at a time."""

    deadline: float
    grace: float
    started: float = field(default_factory=time.monotonic)
    _blamed: str = ""
    _blamed_at: float = 0.0
    _until: float = 0.0

    def __post_init__(self) -> None:
        """Start with the whole deadline."""
        self._until = self.started + self.deadline

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    @property
    def left(self) -> float:
        """Seconds left, as things stand."""
        return self._until - time.monotonic()

    @property
    def hurried(self) -> bool:
        """Whether something ended a rank."""
        return bool(self._blamed)

    def hurry(self, what: str) -> None:
        """Say that `what` ended a rank: its peers may wait for it for ever. The first one is blamed."""
        if not self._blamed:
            self._blamed, self._blamed_at = what, time.monotonic()
            self._until = min(self._until, self._blamed_at + self.grace)

    def renew(self) -> bool:
        """Wait for another grace period; False where the deadline is over."""
        limit, now = self.started + self.deadline, time.monotonic()
        self._until = min(limit, now + self.grace)
        return now < limit

    @property
    def why(self) -> str:
        """What is to be said of a rank that has not finished."""
        if not self._blamed:
            return f"had not finished within {self.deadline:g} s"
        late = time.monotonic() - self._blamed_at
        return f"had not finished {late:.1f} s after {self._blamed}; it may be waiting for that rank"
