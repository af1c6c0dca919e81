"""The table of what gloo carries, against gloo."""

from __future__ import annotations

from reference import DTYPES
from shardproof.backends import ADDS, CARRIES
from shardproof.pytest_plugin import Ranks
from tests.ranks.carrying import truth


def test_gloo(ranks: Ranks) -> None:
    for found in ranks.values(truth, {"ranks": [0, 1], "dtypes": list(DTYPES)}, world_size=2):
        assert {name for name, told in found.items() if told["gathers"] == "yes"} == CARRIES["gloo"]
        assert {name for name, told in found.items() if told["adds"] == "yes"} == ADDS["gloo"]
