"""mutmut with mutants swapped in rather than dispatched: mutate.py run, any other mutmut command, or score.

mutmut puts a trampoline in front of every function that it changes, which asks the environment at each call for the
mutant that is due. The tests here call small functions millions of times: seven minutes of them that way, half a minute
this way. A mutant has its process to itself, so that its code can take the place of the original's, once.
A function that runs while its package is imported has shaped that package by then: where such a one is mutated, the
packages and the tests are imported anew in the mutant's process, and all tests are run. What is generated, which tests
any other mutant gets, and what counts as killed remain mutmut's.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, cast

from mutmut.__main__ import cli
from mutmut.mutation import trampoline
from mutmut.mutation.trampoline_templates import mangle_function_name
from mutmut.runners.harness import PytestRunner
from mutmut.state import state
from mutmut.stats import status_by_exit_code
from mutmut.workers import isolation

Function = Callable[..., Any]

PACKAGES = ("reference", "invariants")
# What has imported them.
IMPORTERS = ("shardproof", "gpu_impl", "tests", "conftest")

_SITES: list[tuple[dict[str, FunctionType], FunctionType]] = []
_AT_IMPORT: set[str] = set()


def due_now() -> str:
    """The mutant that mutmut has announced: module and name, or what it calls its other runs."""
    return os.environ.get("MUTANT_UNDER_TEST", "")


def name_of(mutant: str) -> str:
    """Its name within its module."""
    return mutant.rpartition(".")[2]


def place_of(mutant: str) -> str:
    """The module and mangled name of the function that it is a mutant of."""
    return mutant.partition("__mutmut_")[0]


def recorded(mutants: dict[str, FunctionType], is_classmethod: bool = False) -> Callable[[FunctionType], Function]:
    """In place of mutmut's decorator: the function itself, which notes for mutmut that the current test reached it."""
    if is_classmethod:
        raise NotImplementedError("a classmethod's code is not where this looks for it")

    def record(function: FunctionType) -> Function:
        _SITES.append((mutants, function))
        owner, _, name = function.__qualname__.rpartition(".")
        place = f"{function.__module__}.{mangle_function_name(name=name, class_name=owner or None)}"
        reached = state()._stats

        @wraps(function)
        def noted(*args: Any, **kwargs: Any) -> Any:
            reached.add(place)
            return function(*args, **kwargs)

        @wraps(function)
        def exchanged(*args: Any, **kwargs: Any) -> Any:
            return mutants[name_of(due_now())](*args, **kwargs)

        if place in _AT_IMPORT and place_of(due_now()) == place:  # imported anew, in the mutant's process
            return cast(Function, exchanged)

        return cast(Function, noted)

    return record


def _broken(*_: Any, **__: Any) -> None:
    raise trampoline.MutmutProgrammaticFailException


def swaps(mutant: str) -> Iterator[tuple[FunctionType, FunctionType]]:
    """The functions that a mutant replaces and what by: one, none for the clean run, all for mutmut's "fail"."""
    module, _, name = mutant.rpartition(".")
    for mutants, function in _SITES:
        if mutant == "fail" and not function.__closure__:  # code that uses super() is exchanged for such code only
            yield function, cast(FunctionType, _broken)
        elif function.__module__ == module and name in mutants:
            yield function, mutants[name]


def _forget() -> None:
    """Empty the caches that the clean run filled in the process that mutants are forked from."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in PACKAGES:
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def _unload() -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] in PACKAGES + IMPORTERS:
            del sys.modules[name]


class Steady:
    """A pytest plugin: the same examples for every mutant, as many as the tests ask for."""

    def pytest_configure(self) -> None:
        """No mutant is killed by a slow machine, no failing example comes back for the next, none is made smaller."""
        # pytest rewrites the assertions of what it imports itself: not before it.
        from hypothesis import Phase, settings

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", deadline=None, database=None, derandomize=True, phases=phases)
        settings.load_profile("mutants")
        for package in PACKAGES:
            import_module(package)
        if not _AT_IMPORT:
            _AT_IMPORT.update(state()._stats)
            state()._stats.clear()


class Swapping(PytestRunner):
    """Puts the mutant's code in place, runs its tests, and puts the original's back."""

    def execute_pytest(self, params: list[str], **kwargs: Any) -> int:
        """As mutmut's, with steady examples."""
        return super().execute_pytest(params, **{**kwargs, "plugins": [*kwargs.get("plugins", ()), Steady()]})

    def run_stats(self, *, tests: Iterable[str]) -> int:
        """As mutmut's, and all tests are for what runs at import."""
        code = super().run_stats(tests=tests)
        for place in _AT_IMPORT:
            state().tests_by_mangled_function_name[place].update(state().duration_by_test)
        return code

    def run_tests(self, *, mutant_name: str | None, tests: Iterable[str]) -> int:
        """As mutmut's; the mutant is the one that mutmut has announced in the environment."""
        if place_of(due_now()) in _AT_IMPORT:
            _unload()
            return super().run_tests(mutant_name=mutant_name, tests=tests)
        pairs = list(swaps(due_now()))
        originals = [function.__code__ for function, _ in pairs]
        _forget()
        for function, mutant in pairs:
            function.__code__ = mutant.__code__
        try:
            return super().run_tests(mutant_name=mutant_name, tests=tests)
        finally:
            for (function, _), code in zip(pairs, originals, strict=True):
                function.__code__ = code


def score() -> Iterator[str]:
    """One line a package: how many mutants it has, and what became of them so far."""
    for package in PACKAGES:
        found: Counter[str] = Counter()
        for path in sorted(Path("mutants", package).rglob("*.py.meta")):
            codes = json.loads(path.read_text())["exit_code_by_key"].values()
            found.update(status_by_exit_code[code] for code in codes)
        counts = ", ".join(f"{count} {status}" for status, count in found.most_common())
        yield f"{package}: {found.total()} mutants, {counts}"


if __name__ == "__main__" and sys.argv[1:] == ["score"]:
    print(*score(), sep="\n")
elif __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"  # a fork takes none of the threads along that NumPy and torch would wait for
    trampoline.wrap_in_trampoline = recorded
    isolation.PytestRunner = Swapping
    cli()
