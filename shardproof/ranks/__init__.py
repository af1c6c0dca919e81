"""Runs functions on ranks and always comes back: the front door of the local rank pool."""

from shardproof.ranks.context import Context, Failed
from shardproof.ranks.nursery import PoolError
from shardproof.ranks.pool import DEVICES, MAX_WORLD_SIZE, Pool
from shardproof.ranks.report import Ended, RankReport

__all__ = ["DEVICES", "MAX_WORLD_SIZE", "Context", "Ended", "Failed", "Pool", "PoolError", "RankReport"]
