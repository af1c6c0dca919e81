"""The rows of the list of known faults, by which laws say what they catch."""

_HIGHEST = {"L": 8, "R": 9, "G": 16, "N": 9, "C": 7}

ROWS: tuple[str, ...] = tuple(f"{group}{number}" for group, last in _HIGHEST.items() for number in range(1, last + 1))
"""Layout (L), registration (R), gather (G), reduction (N), checkpoint (C)."""
