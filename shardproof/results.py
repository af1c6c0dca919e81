"""results.json: everything a run found, as data for other programs and for `shardproof replay`.

Beside it, each failing case lies in a file of its own.
"""

from __future__ import annotations

import json
import platform
import shlex
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from invariants import Violation
from shardproof.atomic import write_text
from shardproof.case import Case
from shardproof.case_file import from_json, read_bytes, to_json, write_case
from shardproof.errors import UsageError
from shardproof.finding import Finding
from shardproof.json_reading import loads, refuse, show
from shardproof.outcome import PinnedResult, RunResult

RESULTS_VERSION = 1
NAME = "results.json"
LATEST = Path(".shardproof") / "latest"


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a run is written: a folder of results.json and failing cases, one results file, or both."""

    folder: Path | None = LATEST
    file: Path | None = None

    def case_file(self, law: str) -> Path | None:
        """Where the failing case of a law lies."""
        return self.folder / "failures" / f"{law}.json" if self.folder else None

    def replay(self, law: str, index: int, implementation: str, device: str) -> str:
        """The command that runs the failing case of a law again, the run's finding number `index`."""
        case_file = self.case_file(law)
        if case_file:
            options = [str(case_file), "--impl", implementation, "--device", device]
        else:
            options = [str(self.file), "--index", str(index)]
        return shlex.join(["shardproof", "replay", *options])

    def write(self, result: RunResult) -> Path:
        """Write everything; what an earlier run left in the folder's failures goes. Returns where results.json is."""
        text = f"{json.dumps(to_results(result), indent=1)}\n"
        if self.folder:
            wanted = {self.case_file(finding.law): finding.case for finding in result.findings}
            for path, case in wanted.items():
                if path:
                    write_case(path, case)
            for old in set((self.folder / "failures").glob("*.json")) - set(wanted):
                old.unlink(missing_ok=True)
            write_text(self.folder / NAME, text)
        if self.file:
            write_text(self.file, text)
        return self.file or (self.folder or LATEST) / NAME


def to_results(result: RunResult) -> dict[str, Any]:
    """The whole run as JSON's own types."""
    description = result.description
    return {
        "version": RESULTS_VERSION,
        "versions": versions() | {"torch": description.torch},
        "implementation": {
            "name": description.name,
            "target": description.target,
            "form": description.form,
            "offers": description.offers,
            "promises": description.promises,
            "layouts": description.layouts,
            "alignments": description.alignments,
        },
        "device": result.device,
        "backend": description.backend,
        "world_sizes": result.world_sizes,
        "seed": result.seed,
        "outcome": result.outcome,
        "exit_code": result.exit_code,
        "why_not": result.why_not,
        "cases": result.cases,
        "unknown_cases": result.unknown_cases,
        "shrink_cases": result.shrink_cases,
        "seconds": asdict(result.timings),
        "features": dict(result.features),
        "missing_features": result.missing,
        "laws": [
            {
                "law": law.law,
                "outcome": law.outcome,
                "reason": "" if law.cases else law.reason,
                "cases": law.cases,
                "items": law.items,
                "broken_cases": law.broken_cases,
                "deviating_cases": law.deviating_cases,
            }
            for law in result.laws
        ],
        "failures": [_failure(finding) for finding in result.findings],
        "deviations": [_deviation(pinned) for pinned in result.pinned],
    }


def versions() -> dict[str, str]:
    """Of what is at work in this process."""
    found = {"python": platform.python_version()}
    for name in ("shardproof", "hypothesis", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _failure(finding: Finding) -> dict[str, Any]:
    failure = finding.failure
    return {
        "law": failure.law,
        "title": failure.title,
        "message": failure.message,
        "identity": failure.identity,
        "violations": [_violation(violation) for violation in failure.violations[:20]],
        "violations_in_all": len(failure.violations),
        "case": to_json(failure.case),
        "found_in": to_json(finding.found_in),
        "attempts": finding.attempts,
        "replays": asdict(finding.replays),
        "flaky": finding.flaky,
        "replay": failure.replay,
    }


def _violation(violation: Violation) -> dict[str, Any]:
    return {name: value for name, value in asdict(violation).items() if value is not None}


def _deviation(pinned: PinnedResult) -> dict[str, Any]:
    known = pinned.deviation
    return {
        "law": known.law,
        "condition": known.condition.text,
        "reason": known.reason,
        "link": known.link,
        "device": known.device,
        "case": to_json(known.case),
        "deviates": pinned.deviates,
    }


@dataclass(frozen=True, slots=True)
class Saved:
    """A case to run again, and what the file says of it: the law it breaks, and on which implementation and device."""

    case: Case
    law: str | None = None
    implementation: str | None = None
    device: str | None = None


def read_saved(path: Path, index: int | None = None) -> Saved:
    """The case in a case file, or failure number `index` (default 0) of a results.json.

    Raises UsageError for what is neither, for a failure that is not there, and for an index into a case file.
    """
    where = str(path)
    value = loads(read_bytes(path), where)
    if not isinstance(value, dict) or "failures" not in value:
        if index is not None:
            raise UsageError(
                "a case file holds one case", where=where, observed=f"--index {index}", todo="leave it out"
            )
        return Saved(from_json(value, where))
    if value.get("version") != RESULTS_VERSION:
        raise refuse(f"{where}.version", show(value.get("version")), str(RESULTS_VERSION))
    failures = _checked(value["failures"], f"{where}.failures", list)
    if not failures:
        raise UsageError("this run found no failure", where=where, todo="there is nothing to replay")
    at = index or 0
    if not 0 <= at < len(failures):
        raise UsageError(
            "there is no such failure", where=where, observed=str(at), expected=f"0 to {len(failures) - 1}"
        )
    place = f"{where}.failures[{at}]"
    failure = _checked(failures[at], place, dict)
    implementation = _checked(value.get("implementation"), f"{where}.implementation", dict)
    return Saved(
        case=from_json(failure.get("case"), f"{place}.case"),
        law=_checked(failure.get("law"), f"{place}.law", str),
        implementation=_checked(implementation.get("name"), f"{where}.implementation.name", str),
        device=_checked(value.get("device"), f"{where}.device", str),
    )


def _checked(value: Any, where: str, kind: type) -> Any:
    if type(value) is not kind:
        names = {"list": "a list", "dict": "an object", "str": "a text"}
        raise refuse(where, show(value), names[kind.__name__])
    return value
