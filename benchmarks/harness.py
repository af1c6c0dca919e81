"""What one case costs: ours against PyTorch's own multi-process test classes and against the bare pooled program.

python -m benchmarks.harness
"""

from __future__ import annotations

import io
import statistics
import sys
import time
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch.distributed as dist
from torch.testing._internal.common_distributed import MultiProcContinuousTest, MultiProcessTestCase

from benchmarks.program import by_hand, case
from shardproof.ahead import Ahead
from shardproof.engine import Engine

WORLD_SIZE = 2
CONTINUOUS_TESTS = 150
CASES = 200
# The machine's speed changes from minute to minute: what is compared is measured in turn, and ratios are of one round.
ROUNDS = 3


class Spawned(MultiProcessTestCase):
    """PyTorch's usual class: new processes and a new process group for every test."""

    @property
    def world_size(self) -> int:
        """Two ranks."""
        return WORLD_SIZE

    def setUp(self) -> None:  # unittest's name
        """Start the ranks."""
        super().setUp()
        self._spawn_processes()

    def test_program(self) -> None:
        """The named program."""
        store = dist.FileStore(self.file_name, self.world_size)
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=self.world_size)
        by_hand(self.rank, self.world_size, dist.group.WORLD)
        dist.destroy_process_group()


class Continuous(MultiProcContinuousTest):
    """PyTorch's class that keeps its processes between tests."""

    world_size = WORLD_SIZE

    @classmethod
    def backend_str(cls) -> str:
        """The CPU backend."""
        return "gloo"

    @classmethod
    def device_type(cls) -> str:
        """The CPU."""
        return "cpu"


def _program(self: Any) -> None:
    by_hand(self.rank, self.world_size, dist.group.WORLD)


def _round(number: int) -> type[Continuous]:
    """A class of its own for each round: its processes end with its last test, and it cannot start others."""
    tests = {f"test_program_{test:03}": _program for test in range(CONTINUOUS_TESTS)}
    return type(f"Round{number}", (Continuous,), {"__module__": __name__, **tests})


# By name in this module, where the processes that run the tests find them.
ROUND_CLASSES = [_round(number) for number in range(ROUNDS)]
globals().update({round_class.__name__: round_class for round_class in ROUND_CLASSES})


def spawned_seconds() -> float:
    """One MultiProcessTestCase test."""
    return _suite([Spawned("test_program")])


def continuous_seconds(tests: type[Continuous]) -> float:
    """One MultiProcContinuousTest test, without the class's start: the median distance between finished tests."""
    names = [name for name in dir(tests) if name.startswith("test_program_")]
    marks: list[float] = []

    class Marking(unittest.TextTestResult):
        def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802  # unittest's name
            super().stopTest(test)
            marks.append(time.perf_counter())

    _suite([tests(name) for name in names], Marking)
    return _median_distance(marks)


def ours_seconds(engine: Engine) -> tuple[float, float]:
    """Median seconds of one case on ranks, and of judging it."""
    named = case(WORLD_SIZE)
    timings = [engine.judge(named, twice=False).timing for _ in range(CASES)]
    return statistics.median(t.ran for t in timings), statistics.median(t.judged for t in timings)


def row_seconds(engine: Engine) -> float:
    """One case of a row, in which each is judged while the next one runs: the median distance between verdicts."""
    marks: list[float] = []
    for _ in Ahead(engine, twice=False).verdicts([case(WORLD_SIZE)] * CASES):
        marks.append(time.perf_counter())
    return _median_distance(marks)


def _median_distance(marks: list[float]) -> float:
    return statistics.median(later - earlier for earlier, later in pairwise(marks))


def _suite(tests: list[Any], result: type[unittest.TextTestResult] = unittest.TextTestResult) -> float:
    began = time.perf_counter()
    outcome = unittest.TextTestRunner(io.StringIO(), resultclass=result).run(unittest.TestSuite(tests))
    if not outcome.wasSuccessful():
        sys.exit(f"the comparison itself failed:\n{(outcome.failures + outcome.errors)[0][1]}")
    return time.perf_counter() - began


@contextmanager
def _engine() -> Iterator[Engine]:
    with Engine("gpu_impl", pool_size=WORLD_SIZE) as engine:
        for _ in range(20):
            engine.judge(case(WORLD_SIZE), twice=False)
        yield engine


def main(say: Callable[[str], None] = print) -> None:
    """Print the table."""
    began = time.perf_counter()
    with _engine() as engine:
        say(f"named program at world size {WORLD_SIZE}, gpu_impl on gloo, medians; ratios are to ours one at a time")
        say(f"engine ready after {time.perf_counter() - began:.2f} s (torch's import, pool and 20 cases included)")
        for number, tests in enumerate(ROUND_CLASSES):
            (ran, judged), row = ours_seconds(engine), row_seconds(engine)
            continuous, spawned = continuous_seconds(tests), spawned_seconds()
            say(f"round {number}, ms a case or test")
            parts = f"run {1e3 * ran:.2f}, judged {1e3 * judged:.2f}"
            say(f"  ours, one at a time      {1e3 * (ran + judged):9.2f}   {parts}")
            say(f"  ours, in a row           {1e3 * row:9.2f}")
            say(f"  MultiProcContinuousTest  {1e3 * continuous:9.2f}   {continuous / (ran + judged):.2f} x")
            say(f"  MultiProcessTestCase     {1e3 * spawned:9.2f}   {spawned / (ran + judged):.0f} x")


if __name__ == "__main__":
    main()
