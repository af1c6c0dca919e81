from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from typer.main import get_command

from invariants import LAWS
from shardproof.catalogue import page
from shardproof.cli import app

ROOT = Path(__file__).parents[2]
PAGES = sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").glob("*.md")) + [ROOT / "tests" / "README.md"]
LINK = re.compile(r"\[[^\]]+\]\(([^)#]+)(?:#[^)]*)?\)")


def test_the_page_of_laws_is_fresh() -> None:
    assert (ROOT / "docs" / "laws.md").read_text() == page(LAWS), "python -m shardproof laws --markdown > docs/laws.md"


@pytest.mark.parametrize("page_file", PAGES, ids=lambda file: file.name)
def test_links_inside_the_project_lead_somewhere(page_file: Path) -> None:
    targets = [target for target in LINK.findall(page_file.read_text()) if "://" not in target]
    assert [target for target in targets if not (page_file.parent / target).exists()] == []


@pytest.mark.parametrize("page_file", PAGES, ids=lambda file: file.name)
def test_files_that_pages_name_are_there(page_file: Path) -> None:
    named = re.findall(
        r"`((?:docs|tests|shardproof|invariants|reference|gpu_impl|benchmarks)/[\w./-]+)`", page_file.read_text()
    )
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_ci_runs_the_command_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    command = readme.partition("<!-- tests -->\n```sh\n")[2].partition("\n```")[0]
    assert command.startswith("python3 -m venv ")
    assert "pytest" in command
    script = (ROOT / ".ci" / "run").read_text().replace("eval", "printf %s\\\\n")
    printed = subprocess.run(
        ["bash", "-c", script, str(ROOT / ".ci" / "run")], capture_output=True, text=True, check=True
    )
    assert printed.stdout.splitlines()[-1] == command


def commands(text: str) -> list[list[str]]:
    """Every call of ours in a page or workflow, as words."""
    found = re.findall(r"(?:^|[`=] ?|run: )((?:shardproof|pytest) [a-z-][^`\n#]*)", text, re.MULTILINE)
    return [shlex.split(line) for line in found]


EXAMPLES = (
    ROOT / "docs" / "examples" / "shardproof.yml",
    ROOT / "docs" / "write-an-implementation.md",
    ROOT / "README.md",
)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_commands_in_examples_have_the_options_they_name(file: Path) -> None:
    ours = [words for words in commands(file.read_text()) if words[0] == "shardproof"]
    assert ours
    known = get_command(app).commands  # type: ignore[attr-defined]  # of a group, which an app with several commands is
    for _, name, *rest in ours:
        options = {option for parameter in known[name].params for option in parameter.opts}
        assert {word for word in rest if word.startswith("--")} <= options


def test_architecture_fits_two_pages() -> None:
    assert len((ROOT / "docs" / "ARCHITECTURE.md").read_text().split()) < 1000
