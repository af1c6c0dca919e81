"""Implementations with one known mistake each: what a checker is worth is what it catches."""
