"""A case as a script that shows it without this project."""

from __future__ import annotations

import pprint
from importlib.resources import files

from shardproof.case import Case
from shardproof.case_file import encode
from shardproof.implementations import resolve
from shardproof.json_reading import loads

_TARGET, _CASE = 'TARGET = "gpu_impl"\n', "CASE: dict[str, Any] = {}\n"


def as_script(case: Case, implementation: str) -> str:
    """The text of `standalone.py` with this case and implementation in it."""
    text = files("shardproof").joinpath("standalone.py").read_text(encoding="utf-8")
    value = pprint.pformat(loads(encode(case), "case"), sort_dicts=False, width=110)
    text = text.replace(_TARGET, f"TARGET = {resolve(implementation).target!r}\n", 1)
    return text.replace(_CASE, f"CASE: dict[str, Any] = {value}\n", 1)
