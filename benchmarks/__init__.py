"""Ratios measured in one run: the machines this runs on are shared, so a number alone means little."""
