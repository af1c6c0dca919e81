"""The state family: what is saved, loaded, counted and trained."""
