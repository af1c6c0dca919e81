from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from invariants import LAWS
from shardproof.errors import UsageError
from shardproof.opening import devices
from shardproof.siblings import check_siblings
from tests.cli.conftest import Run

ROOT = Path(__file__).parents[2]


def python(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=cwd, check=False, timeout=120
    )


def test_help_names_every_command(run: Run) -> None:
    ended = run("--help")
    assert ended.code == 0
    assert all(f"  {name} " in ended.out for name in COMMANDS)


COMMANDS = ("check", "replay", "laws", "impls", "faults", "prove", "bench")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(run: Run, command: str) -> None:
    ended = run(command, "--help")
    assert ended.code == 0
    assert ended.out.startswith(f"Usage: shardproof {command} ")


def test_no_command(run: Run) -> None:
    assert run().code == 2


def test_a_command_that_is_none(run: Run) -> None:
    ended = run("chek")
    assert ended.code == 2
    assert "chek" in ended.err


def test_help_starts_quickly() -> None:
    """Neither torch nor Hypothesis nor NumPy is imported to print it."""
    slow = ("torch", "hypothesis", "numpy", "rich")
    code = f"""
import sys
from shardproof.cli import main
code = main(["--help"])
loaded = [name for name in {slow} if name in sys.modules]
sys.exit(f"imported {{loaded}}" if loaded else code)
"""
    done = python("-c", code)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_check_never_imports_torch_here() -> None:
    code = """
import sys
from shardproof.cli import main
main(["check", "--impl", "nothing.at.all:here", "--world-sizes", "1", "--device", "cpu", "--only", "round-trip"])
sys.exit("torch" in sys.modules)
"""
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    assert "nothing.at.all:here" in done.stderr


def test_as_a_module() -> None:
    done = python("-m", "shardproof", "laws", "round-trip")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("round-trip (gather)\n")


def test_laws_are_all_there(run: Run) -> None:
    ended = run("laws")
    assert ended.code == 0
    assert all(f"  {law.slug} " in ended.out for law in LAWS)
    assert all(law.sentence in ended.out for law in LAWS)


def test_laws_as_a_page(run: Run) -> None:
    ended = run("laws", "--markdown")
    assert ended.out.startswith("# ")
    assert all(f"### {law.slug}\n\n{law.sentence}\n" in ended.out for law in LAWS)


def test_a_law_that_is_none(run: Run) -> None:
    ended = run("laws", "round-tripp")
    assert ended.code == 2
    assert "did you mean round-trip?" in ended.err


def test_a_package_that_shadows_ours_is_named(tmp_path: Path) -> None:
    (tmp_path / "reference").mkdir()
    (tmp_path / "reference" / "__init__.py").write_text("")
    code = f"import sys; sys.path.append({str(ROOT)!r}); from shardproof.cli import main; sys.exit(main(['laws']))"
    done = python("-c", code, cwd=tmp_path)
    assert done.returncode == 2
    assert str(tmp_path / "reference") in done.stderr


def test_siblings_are_ours() -> None:
    check_siblings()


@pytest.mark.parametrize(
    ("asked", "driver", "tried"),
    [(None, False, ("cpu",)), (None, True, ("cuda", "cpu")), ("cpu", True, ("cpu",)), ("cuda", False, ("cuda",))],
)
def test_devices(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asked: str | None, driver: bool, tried: tuple[str, ...]
) -> None:
    monkeypatch.setattr("shardproof.opening._DRIVER", tmp_path if driver else tmp_path / "none")
    assert devices(asked) == tried


def test_a_device_that_is_none() -> None:
    with pytest.raises(UsageError, match="did you mean cpu"):
        devices("gpu")
