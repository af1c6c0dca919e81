"""`python -m benchmarks [harness] [gather]`: all of them where none is named."""

from __future__ import annotations

import sys

from benchmarks import gather, harness

BENCHMARKS = {"harness": harness.main, "gather": gather.main}


def main(names: list[str]) -> None:
    """Run the named benchmarks one after another."""
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"unknown benchmark {unknown[0]!r}, expected {' or '.join(BENCHMARKS)}")
    for name in names or BENCHMARKS:
        BENCHMARKS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
