"""Runs the command line in this process, with planted engines in place of ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from shardproof.cli import main
from tests.search.planted import Planted


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


Run = Callable[..., Ended]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """main(arguments) in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Ended:
        code = main(arguments)
        told = capsys.readouterr()
        return Ended(code, told.out, told.err)

    return run


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[[Planted], None]:
    """Whatever implementation is asked for, this one is opened, on the first device that is asked for."""

    def plant(planted: Planted) -> None:
        @contextmanager
        def opened(_: str, devices: Sequence[str], *__: object) -> Iterator[tuple[Planted, str]]:
            yield planted, devices[-1]

        monkeypatch.setattr("shardproof.opening.open_engine", opened)

    return plant
