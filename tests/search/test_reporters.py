from __future__ import annotations

import io
import re

import pytest
from rich.console import Console
from rich.progress import Progress

from shardproof.case import Case
from shardproof.events import Event
from shardproof.profiles import Budget
from shardproof.reporters.plain import Plain
from shardproof.reporters.terminal import Terminal
from shardproof.search import Plan, search
from tests.search.planted import Planted, describe

BUDGET = Budget(20, 300, 300)


def wide(case: Case) -> bool:
    return case.world_size > 1


def on_a_terminal(planted: Planted) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=200, color_system=None)
    with Progress(console=console, transient=True) as progress:
        search(planted, Plan(budget=BUDGET), [Terminal(progress, progress.add_task("starting ranks", total=None))])
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue().replace("\r", "\n"))


def test_a_terminal_shows_failures_and_the_end() -> None:
    told = on_a_terminal(Planted({"wide-law": wide}))
    assert "planted breaks wide-law" in told
    assert "100%" in told
    assert "BROKEN: wide-law" in told.splitlines()


def test_names_are_never_read_as_markup() -> None:
    assert "[red]x[/red] breaks wide-law" in on_a_terminal(Planted({"wide-law": wide}, describe(name="[red]x[/red]")))


def test_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[Event] = []
    search(Planted({"wide-law": wide}), Plan(budget=BUDGET), [Plain(), heard.append])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("checking planted on gloo (cpu)")
    assert lines.count("wide-law is broken; looking for the smallest case") == 1
    assert "\x1b" not in "".join(lines)
    assert lines[-1] == "BROKEN: wide-law"


def test_what_does_not_show_again_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    planted = Planted({})
    planted.faults = {"wide-law": lambda case: wide(case) and not planted.renewed}
    search(planted, Plan(budget=BUDGET), [Plain()])
    assert "does not show every time: in 0 of 5 replays on fresh ranks" in capsys.readouterr().out
