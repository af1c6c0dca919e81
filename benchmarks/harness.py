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
from shardproof.engine import Engine

WORLD_SIZE = 2
CONTINUOUS_TESTS = 200
CASES = 400


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


for _number in range(CONTINUOUS_TESTS):
    setattr(Continuous, f"test_program_{_number:03}", _program)


def spawned_seconds() -> float:
    """One MultiProcessTestCase test."""
    return _suite([Spawned("test_program")])


def continuous_seconds() -> float:
    """One MultiProcContinuousTest test, without the class's start: the median distance between finished tests."""
    names = [name for name in dir(Continuous) if name.startswith("test_program_")]
    marks: list[float] = []

    class Marking(unittest.TextTestResult):
        def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802  # unittest's name
            super().stopTest(test)
            marks.append(time.perf_counter())

    _suite([Continuous(name) for name in names], Marking)
    return statistics.median(later - earlier for earlier, later in pairwise(marks))


def ours_seconds(engine: Engine) -> tuple[float, float]:
    """Median seconds of one case on ranks, and of judging it."""
    named = case(WORLD_SIZE)
    timings = [engine.judge(named, twice=False).timing for _ in range(CASES)]
    return statistics.median(t.ran for t in timings), statistics.median(t.judged for t in timings)


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
        started = time.perf_counter() - began
        ran, judged = ours_seconds(engine)
        continuous = continuous_seconds()
        spawned = statistics.median(spawned_seconds() for _ in range(3))
        again, _ = ours_seconds(engine)
    ours = ran + judged
    ms = 1e3
    say(f"named program at world size {WORLD_SIZE}, gpu_impl on gloo, medians of one run")
    say(f"  ours: run {ran * ms:.2f} ms (again: {again * ms:.2f}) + judge {judged * ms:.2f} ms = {ours * ms:.2f} ms")
    say(f"  MultiProcContinuousTest: {continuous * ms:.2f} ms a test, checks included = {continuous / ours:.2f} x ours")
    say(f"  MultiProcessTestCase: {spawned:.2f} s a test = {spawned / ours:.0f} x ours")
    say(f"  engine ready after {started:.2f} s (torch's import, pool, description and 20 cases included)")


if __name__ == "__main__":
    main()
