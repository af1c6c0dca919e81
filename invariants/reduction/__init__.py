"""The reduction family: gradients and norms over ranks."""
