"""Files of known deviations, read and asked."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from invariants import Violation
from shardproof.case import Case
from shardproof.case_file import from_json, read_bytes
from shardproof.deviations.condition import Condition
from shardproof.json_reading import one_of, record, refuse, sequence, text

_FOLDER = Path(__file__).parent
_EVERY_TORCH = SpecifierSet()


@dataclass(frozen=True, slots=True)
class Deviation:
    """One entry: which law, when, in which pinned case, why, and where that is said.

    `device` None: on every one. `torch`: with these versions of it.
    """

    law: str
    condition: Condition
    case: Case
    reason: str
    link: str
    device: str | None = None
    torch: SpecifierSet = _EVERY_TORCH

    def applies(self, device: str, torch: str) -> bool:
        """Whether the entry is about this device and torch."""
        return self.device in (None, device) and (not self.torch or self.torch.contains(torch, prereleases=True))

    def covers(self, case: Case, violation: Violation, device: str) -> bool:
        """Whether this violation is the known one."""
        if violation.law != self.law or self.device not in (None, device):
            return False
        return self.condition.holds(case, violation)


def excused_by(deviations: Sequence[Deviation], case: Case, violation: Violation, device: str) -> Deviation | None:
    """The first entry that covers a violation."""
    return next((known for known in deviations if known.covers(case, violation, device)), None)


def known_deviations(implementation: str) -> tuple[Deviation, ...]:
    """The entries that come with a known implementation; none where it has no file."""
    path = _FOLDER / f"{implementation}.toml"
    return read_deviations(path) if implementation.isidentifier() and path.is_file() else ()


def read_deviations(path: Path) -> tuple[Deviation, ...]:
    """The entries of a file. Raises UsageError, naming the place, for what is not one."""
    where = str(path)
    try:
        value = tomllib.loads(read_bytes(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refuse(where, str(error)[:120], "TOML in UTF-8") from error
    entries: tuple[Deviation, ...] = _FILE(value, where)
    return entries


def _condition(value: Any, where: str) -> Condition:
    return Condition.read(text(most=500)(value, where), where)


def _versions(value: Any, where: str) -> SpecifierSet:
    try:
        return SpecifierSet(text()(value, where))
    except InvalidSpecifier as error:
        raise refuse(where, repr(value), 'versions of torch, such as "<2.13"') from error


_FILE = record(
    lambda deviation: deviation,
    required={
        "deviation": sequence(
            record(
                Deviation,
                required={
                    "law": text(),
                    "condition": _condition,
                    "case": from_json,
                    "reason": text(most=2000),
                    "link": text(),
                },
                optional={"device": one_of(("cpu", "cuda")), "torch": _versions},
            ),
            most=1000,
        )
    },
)
