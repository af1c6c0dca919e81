"""The one shape of an error a user can mend: what, where, observed, expected, what to do."""

from __future__ import annotations


class UsageError(Exception):
    """Wrong use or unusable input. The command line prints it and exits with 2; nothing is lost."""

    def __init__(self, what: str, *, where: str = "", observed: str = "", expected: str = "", todo: str = "") -> None:
        """Keep the parts; the message joins those that are given."""
        self.what, self.where, self.observed, self.expected, self.todo = what, where, observed, expected, todo
        head = f"{what} [{where}]" if where else what
        tail = ", ".join(f"{name} {value}" for name, value in (("observed", observed), ("expected", expected)) if value)
        super().__init__("\n".join(part for part in (f"{head}: {tail}" if tail else head, todo) if part))


class CouldNotJudge(Exception):  # noqa: N818  # an outcome, not a fault: nothing was wrong, nothing could be said
    """The question was a fair one but this machine cannot answer it (no GPU, an old NCCL). Exit code 2."""
