"""Reporters listen to a run's events and tell people, or files, of them."""

from shardproof.reporters.choosing import reporter
from shardproof.reporters.replays import print_replay
from shardproof.reporters.saving import saving

__all__ = ["print_replay", "reporter", "saving"]
