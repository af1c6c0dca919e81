"""The registration family: what must be accepted and what refused, the same on every rank."""
