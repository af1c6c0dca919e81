"""`shardproof prove` from outside: what it prints, what it writes, and its exit codes."""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from shardproof.cli import main
from shardproof.proofs import CLAIMS, Formulas

# Arguments that are refused, and what the error says.
WRONG = [
    (["--only", "padded-cover"], ["there is no claim 'padded-cover'", "did you mean padded-covers?"]),
    (["--only", ""], ["there is no claim ''"]),
    (["--overflow", "float33"], ["there is no dtype 'float33'", "did you mean float32?"]),
    (["--overflow", "int8", "--layout", "chunks"], ["there is no layout 'chunks'", "flat_padded, chunk"]),
    (["--overflow", "int8", "--layout", "chunk", "--alignment", "2"], ["chunk has no alignment"]),
    (["--overflow", "int8", "--inner", "2"], ["flat_padded has no inner"]),
    (["--overflow", "int8", "--world-size", "0"], ["--world-size"]),
    (["--seconds", "0"], ["--seconds"]),
]


def test_all_claims_in_one_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "proofs.json"
    assert main(["prove", "--json", str(file)]) == 0
    out = capsys.readouterr().out
    assert f"{len(CLAIMS)} proved, 0 refuted, 0 unknown" in out
    shown = out.partition("formulas, as the model runs them:")[2]
    names = {getattr(Formulas(), field.name).__name__ for field in fields(Formulas)}
    assert {line.partition("(")[0].strip() for line in shown.splitlines() if " = " in line} == names
    assert out.count("\nproved    ") + out.startswith("proved    ") == len(CLAIMS)
    written = json.loads(file.read_text(encoding="utf-8"))
    assert [proof["slug"] for proof in written["proofs"]] == [claim.slug for claim in CLAIMS]
    assert written["trials"] == []


def test_some_claims_and_their_small_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "--only", "padded-covers,order-kept", "--exhaustive"]) == 0
    out = capsys.readouterr().out
    assert "2 proved" in out
    assert "held      padded-covers: 308,224 points, numel to 300, world_size to 64, alignment to 16" in out
    assert "held      order-kept: " in out


def test_a_refuted_claim_is_exit_code_1(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def floor_shard_numel(numel: int, world_size: int, alignment: int = 1) -> int:
        return numel / world_size * alignment if hasattr(numel, "sexpr") else numel // world_size * alignment

    monkeypatch.setattr("shardproof.proofs.proving.Formulas", lambda: Formulas(shard_numel=floor_shard_numel))
    assert main(["prove", "--only", "padded-covers"]) == 1
    out = capsys.readouterr().out
    assert "refuted   padded-covers" in out
    assert "fails at numel = 1, world_size = 2, alignment = 1" in out
    assert "  floor_shard_numel(1, 2, 1) = 0\n" in out
    assert "0 proved, 1 refuted, 0 unknown" in out


def test_no_time_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "--only", "padded-covers", "--seconds", "0.001"]) == 2
    assert "unknown   padded-covers" in capsys.readouterr().out


def test_without_z3_it_says_how_to_install_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    assert main(["prove"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("could not judge: proofs need the z3 solver")
    assert "pip install 'shardproof[prove]'" in captured.err


def test_overflow_needs_no_solver(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    assert main(["prove", "--overflow", "bfloat16", "--world-size", "8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[4:6] == [
        "bytes gathered                int32   from numel 1,073,741,817 on (2,147,483,648)",
        "bytes gathered                uint32  from numel 2,147,483,641 on (4,294,967,296)",
    ]
    assert main(["prove", "--overflow", "float32", "--world-size", "1"]) == 0
    assert "byte offset of the last slot  int32   never" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "said"), WRONG, ids=[" ".join(arguments) for arguments, _ in WRONG])
def test_wrong_use_is_exit_code_2(capsys: pytest.CaptureFixture[str], arguments: list[str], said: list[str]) -> None:
    assert main(["prove", *arguments]) == 2
    err = capsys.readouterr().err
    assert all(part in err for part in said)
