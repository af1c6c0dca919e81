"""Programs for an adapter's session, run on ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shardproof.pytest_plugin import Ranks

SESSIONS = str(Path(__file__).with_name("sessions.py"))
Told = list[list[Any]]


def run_on_ranks(
    ranks: Ranks,
    implementation: str,
    group: tuple[int, ...],
    program: Told,
    blobs: Sequence[bytes],
    layout: Mapping[str, Any],
) -> Told:
    """What each rank of the group was told, operation by operation."""
    payload = {"implementation": implementation, "ranks": group, "program": program, "layout": layout}
    reports = ranks.run(f"{SESSIONS}:program", payload, world_size=5, blobs=blobs, deadline=120)
    assert [report.ended for report in reports] == ["done"] * 5, "\n".join(report.story for report in reports)
    return [reports[rank].value for rank in group]


def specs(parameters: Sequence[tuple[tuple[int, ...], str]], **more: Any) -> list[dict[str, Any]]:
    """One of each (shape, dtype), whose contents are the blob of its number."""
    return [
        {"id": f"p.{at}", "shape": shape, "dtype": dtype, "blob": at, **more}
        for at, (shape, dtype) in enumerate(parameters)
    ]
