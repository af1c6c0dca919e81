"""Checks sharding code on real ranks: partition, gather, reduce, and what must never differ between them."""

from shardproof.given import given_cases

__all__ = ["given_cases"]
