"""Implementations that live elsewhere, seen through the protocol; and a plain control."""
