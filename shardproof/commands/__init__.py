"""The commands, one file each: a function with typer's annotations. What is slow to import is imported inside."""
