"""Every listed finding is a script, every script is listed, and each shows its fault with the torch at hand."""

from __future__ import annotations

import multiprocessing
import os
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("findings.md", "findings-deepspeed.md")
SCRIPTS = sorted(path.stem for path in (ROOT / "findings").glob("*.py"))
# First words of scripts that torch on a CPU does not suffice for.
ELSEWHERE = ("cuda_", "deepspeed_", "megatron_")

# One process imports torch, and every script is run by a fork of it: importing costs more than most scripts.
forks = multiprocessing.get_context("forkserver")
forks.set_forkserver_preload(["torch.distributed.fsdp", "torch.distributed.tensor"])


def run(script: Path, output: Path, environment: dict[str, str]) -> None:
    """Be `python script`."""
    os.environ.update(environment)
    written = os.open(output, os.O_WRONLY | os.O_CREAT)
    os.dup2(written, 1)
    os.dup2(written, 2)
    runpy.run_path(str(script), run_name="__main__")


def done(name: str, folder: Path, **environment: str) -> tuple[int | None, str]:
    """Exit code and output of a script."""
    output = folder / "output"
    process = forks.Process(target=run, args=(ROOT / "findings" / f"{name}.py", output, environment))
    process.start()
    process.join(120)
    process.kill()
    return process.exitcode, output.read_text()


def test_the_pages_and_the_folder_list_the_same() -> None:
    pages = "".join((ROOT / "docs" / page).read_text() for page in PAGES)
    listed = re.findall(r"^\| `(\w+)` \|", pages, re.MULTILINE) + re.findall(r"findings/(\w+)\.py\)", pages)
    assert sorted(set(listed)) == SCRIPTS


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_short_and_starts_with_what_it_shows(name: str) -> None:
    text = (ROOT / "findings" / f"{name}.py").read_text()
    assert text.startswith('"""')
    assert len([line for line in text.splitlines() if line.strip()]) <= 40


@pytest.mark.parametrize("name", [name for name in SCRIPTS if not name.startswith(ELSEWHERE)])
def test_the_fault_is_there(name: str, tmp_path: Path) -> None:
    code, output = done(name, tmp_path)
    assert code == 1, output
    assert "expected " in output
    assert "\nobserved " in output


@pytest.mark.parametrize("name", [name for name in SCRIPTS if name.startswith("cuda_")])
def test_without_a_gpu_it_could_not_judge(name: str, tmp_path: Path) -> None:
    code, output = done(name, tmp_path, CUDA_VISIBLE_DEVICES="")
    assert code == 2
    assert output.startswith("could not judge")
