"""What can go wrong, by what the caller can do about it."""

from __future__ import annotations


class RefusedError(ValueError):
    """Something was refused on every rank of the group with this same text; nothing was changed."""


class RegistrationError(RefusedError):
    """Parameters that the ranks do not agree on, or that one rank cannot provide."""


class CheckpointError(RefusedError):
    """A file that could not be written, or that does not hold the registered parameters."""


class UnknownParameterError(LookupError):
    """An id that was never registered."""


class CollectiveError(RuntimeError):
    """The backend failed. Shards and pending gradients are what they were."""
