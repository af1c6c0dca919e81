"""The table of what NCCL carries, against NCCL."""

from __future__ import annotations

from reference import DTYPES
from shardproof.backends import ADDS, CARRIES
from shardproof.ranks import Pool


def test_nccl(cuda_pool: Pool) -> None:
    payload = {"ranks": [0, 1], "dtypes": list(DTYPES)}
    for report in cuda_pool.run("tests.ranks.carrying:truth", payload, ranks=(0, 1), deadline=120.0):
        assert report.ended == "done", report.story
        print(report.value)
        assert {name for name, told in report.value.items() if told["gathers"] == "yes"} == CARRIES["nccl"]
        assert {name for name, told in report.value.items() if told["adds"] == "yes"} == ADDS["nccl"]
