from __future__ import annotations

from pathlib import Path

import pytest

from shardproof.conformance.shared import Told, once

pytest_plugins = ("pytester",)

IMPLEMENTATION = """
import torch
import torch.distributed as dist


def shard(full, rank, world_size):
    padded = torch.zeros(-(-full.numel() // world_size) * world_size, dtype=full.dtype)
    padded[: full.numel()] = full.reshape(-1)
    return padded.chunk(world_size)[rank].clone() if full.numel() else padded


def gather(shard, shape, group):
    pieces = [torch.empty_like(shard) for _ in range(dist.get_world_size(group))]
    dist.all_gather(pieces, shard, group=group)
    result = torch.cat(pieces)[: torch.Size(shape).numel()].reshape(shape)
    return {wrong}
"""
RIGHT, WRONG = "result", "result.roll(1) if result.numel() > 1 else result"


@pytest.mark.parametrize(("returned", "failed"), [(RIGHT, 0), (WRONG, 1)], ids=["right", "wrong"])
def test_every_law_is_a_test(pytester: pytest.Pytester, returned: str, failed: int) -> None:
    pytester.makepyfile(theirs=IMPLEMENTATION.format(wrong=returned))
    ran = pytester.runpytest_subprocess(
        *("--pyargs", "shardproof.conformance", "--impl", "theirs", "--shardproof-profile", "smoke"),
        *("-p", "no:cacheprovider", "-p", "no:randomly"),
    )
    outcomes = ran.parseoutcomes()
    assert outcomes.get("failed", 0) >= failed
    assert bool(outcomes.get("failed")) == bool(failed)
    assert outcomes["passed"] > 8
    if failed:
        ran.stdout.fnmatch_lines(["*theirs breaks round-trip*", "see it again:  shardproof replay *round-trip.json *"])
        assert (pytester.path / ".shardproof" / "latest" / "failures" / "round-trip.json").exists()


def test_the_search_is_made_once(tmp_path: Path) -> None:
    made: list[int] = []

    def make() -> dict[str, Told]:
        made.append(1)
        return {"round-trip": Told("held"), "*": Told("broken", "why")}

    assert once(tmp_path, make) == once(tmp_path, make) == {"round-trip": Told("held"), "*": Told("broken", "why")}
    assert len(made) == 1


def test_given_cases_hands_out_verdicts(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(theirs=IMPLEMENTATION.format(wrong=WRONG))
    pytester.makepyfile(
        test_theirs="""
        import shardproof

        @shardproof.given_cases("theirs", world_sizes="1-2", examples=60, only=("round-trip",))
        def test_theirs(verdict, tmp_path):
            assert tmp_path.exists()
            assert not verdict.broken

        @shardproof.given_cases("list_all_gather", world_sizes="1-2", examples=5)
        def test_control(verdict):
            assert verdict.outcome == "valid"
        """
    )
    ran = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:randomly")
    ran.assert_outcomes(passed=1, failed=1)
    ran.stdout.fnmatch_lines(["*Failing test case*"])
