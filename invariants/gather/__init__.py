"""The gather family: what a gather returns, and what it leaves alone."""
