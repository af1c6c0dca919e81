"""Names of implementations, and what is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shardproof.errors import UsageError
from shardproof.implementations import KNOWN, resolve

TARGETS = ["pkg.mod", "pkg.mod:attr", "pkg.mod:Class.attr", "mod:attr", "json"]
UNKNOWN = [
    ("gpu_imp", "gpu_impl"),
    ("FSDP2", "fsdp2"),
    ("fsdp", "fsdp2"),
    ("list-all-gather", "list_all_gather"),
]
NO_NAMES = [
    "",
    ":",
    "a:",
    ":b",
    "a:b:c",
    "a b",
    "pkg..mod",
    ".mod",
    "pkg.mod:",
    "../mod.py",
    "mod.py:",
    "1a",
    "nowhere",
]


def test_known_names() -> None:
    assert set(KNOWN) == {
        "gpu_impl",
        "fsdp2",
        "fsdp2_hsdp",
        "fsdp2_resharded",
        "fsdp2_resharded_in_part",
        "deepspeed_zero3",
        "deepcompile_z3",
        "dtensor",
        "fsdp1",
        "fsdp1_orig_params",
        "list_all_gather",
        "megatron_core",
    }
    for name, target in KNOWN.items():
        assert resolve(name) is target
        assert target.summary
        assert "\n" not in target.summary


@pytest.mark.parametrize("name", TARGETS)
def test_anything_that_can_be_imported(name: str) -> None:
    assert resolve(name).target == name


@pytest.mark.parametrize(("name", "nearest"), UNKNOWN)
def test_mistyped_names(name: str, nearest: str) -> None:
    with pytest.raises(UsageError) as raised:
        resolve(name)
    assert nearest in raised.value.todo
    assert all(known in raised.value.expected for known in KNOWN)


@pytest.mark.parametrize("name", NO_NAMES)
def test_what_names_nothing(name: str) -> None:
    with pytest.raises(UsageError, match="there is no implementation"):
        resolve(name)


def test_names_are_known_without_torch() -> None:
    code = "import sys, shardproof.implementations as known; known.resolve('fsdp2'); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# One program for all of them: most of such an import is torch.
LOOK = """
import importlib, json, sys
found = {}
for name, (module, attribute) in json.loads(sys.argv[1]).items():
    try:
        found[name] = hasattr(importlib.import_module(module), attribute)
    except Exception as error:
        found[name] = repr(error)
print(json.dumps(found))
"""


def test_known_targets_exist() -> None:
    targets = {name: known.target.partition(":") for name, known in KNOWN.items() if not known.install}
    asked = json.dumps({name: (module, attribute or "__name__") for name, (module, _, attribute) in targets.items()})
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", LOOK, asked], capture_output=True, text=True, check=True, timeout=120
    )
    assert json.loads(ran.stdout) == dict.fromkeys(targets, True)


# What has to be installed for each of those that need it.
NEEDS = {"deepspeed_zero3": "deepspeed", "deepcompile_z3": "deepspeed", "megatron_core": "megatron"}


def test_the_needy_are_all_there() -> None:
    assert set(NEEDS) == {name for name, known in KNOWN.items() if known.install}


@pytest.mark.parametrize(("name", "package"), NEEDS.items())
def test_what_is_not_installed_could_not_judge(name: str, package: str, tmp_path: Path) -> None:
    (tmp_path / f"{package}.py").write_text("raise ImportError('planted: it is not here')")
    ran = subprocess.run(
        [sys.executable, "-m", "shardproof", "check", "--impl", name, "--device", "cpu"],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(__file__).parents[2]}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 2
    said = ran.stdout + ran.stderr
    assert "could not judge" in said
    assert KNOWN[name].install in said
    assert "planted: it is not here" in said
