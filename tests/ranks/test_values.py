"""What comes back from ranks that end well."""

from __future__ import annotations

import os
import sys

import pytest

from shardproof.pytest_plugin import Ranks
from shardproof.ranks import Context

Answer = tuple[object, list[bytes | bytearray]]


def total(context: Context, payload: list[int], blobs: tuple[bytearray, ...]) -> Answer:
    """The sum of 2 ** rank over the group."""
    import torch
    import torch.distributed as dist

    number = torch.tensor([2**context.rank])
    group = context.group(payload)
    dist.all_reduce(number, group=group)
    return [number.item(), dist.get_rank(group), dist.get_world_size(group), group is context.group(payload)], []


@pytest.mark.parametrize("world_size", range(1, 9))
def test_a_collective_joins_all_ranks(ranks: Ranks, world_size: int) -> None:
    everyone = list(range(world_size))
    expected = [[2**world_size - 1, rank, world_size, True] for rank in everyone]
    assert ranks.values(total, everyone, world_size=world_size) == expected


SUBGROUPS = [(0,), (3,), (0, 1), (1, 2), (2, 3), (0, 2), (1, 3), (1, 2, 3), (0, 1, 3), (0, 1, 2, 3)]


def in_subgroup(context: Context, payload: list[int], blobs: tuple[bytearray, ...]) -> Answer:
    return total(context, payload, blobs) if context.rank in payload else (None, [])


@pytest.mark.parametrize("members", SUBGROUPS)
def test_a_group_holds_just_its_ranks_wherever_it_starts(ranks: Ranks, members: tuple[int, ...]) -> None:
    expected = [
        [sum(2**member for member in members), members.index(rank), len(members), True] if rank in members else None
        for rank in range(4)
    ]
    assert ranks.values(in_subgroup, members, world_size=4) == expected


def with_own_groups(context: Context, payload: int, blobs: tuple[bytearray, ...]) -> Answer:
    """An implementation that makes a group of its own, in every run."""
    import torch
    import torch.distributed as dist

    number = torch.tensor([2**context.rank])
    dist.all_reduce(number, group=dist.new_group(list(range(payload))))
    return number.item(), []


@pytest.mark.parametrize("worlds", [(2, 3, 2, 4, 3), (4, 2, 4)])
def test_groups_that_only_some_ranks_made_do_not_upset_later_ones(ranks: Ranks, worlds: tuple[int, ...]) -> None:
    for world_size in worlds:
        values = ranks.values(with_own_groups, world_size, world_size=world_size)
        assert values == [2**world_size - 1] * world_size


def with_groups_of_two_worlds(context: Context, payload: list[int], blobs: tuple[bytearray, ...]) -> Answer:
    """Ranks 0 and 1 make groups of their own in a world of two before all make one in a world of all."""
    import torch
    import torch.distributed as dist

    number = torch.tensor([0])
    for members in ([0, 1], payload):
        if context.rank in members:
            context.group(members)
            number = torch.tensor([2**context.rank])
            dist.all_reduce(number, group=dist.new_group(members))
    return number.item(), []


def test_groups_that_only_some_ranks_made_in_this_run_do_not_upset_later_ones(ranks: Ranks) -> None:
    assert ranks.values(with_groups_of_two_worlds, [0, 1, 2], world_size=4, deadline=60) == [7, 7, 7, 0]


BAD_GROUPS = [(1, 0), (0, 0), (0, 64), (-1, 0), (1,), ()]


def ask_for_group(context: Context, payload: list[int], blobs: tuple[bytearray, ...]) -> Answer:
    context.group(payload)
    return None, []


@pytest.mark.parametrize("members", BAD_GROUPS)
def test_a_group_that_cannot_be_is_refused(ranks: Ranks, members: tuple[int, ...]) -> None:
    first = ranks.run(ask_for_group, members)[0]
    assert (first.ended, first.error.split(":")[0]) == ("raised", "ValueError"), first.story


def echo(context: Context, payload: object, blobs: tuple[bytearray, ...]) -> Answer:
    return [context.rank, payload], [*blobs, bytes([context.rank])]


PAYLOADS = [None, 0, "", "Ωmega \ud800 \0", [1, [2.5, None]], {"a": {"b": True}}, 2**80, -1.5e300, list(range(50_000))]


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_a_payload_arrives_as_it_is(ranks: Ranks, payload: object) -> None:
    assert ranks.values(echo, payload) == [[0, payload], [1, payload]]


BLOB_LENGTHS = [(), (0,), (1, 0, 2), (65_520,), (65_536, 65_537), (1,) * 3000, (50_000_000, 3)]


@pytest.mark.parametrize("lengths", BLOB_LENGTHS, ids=["none", "empty", "small", "chunk", "chunks", "many", "huge"])
def test_blobs_arrive_and_return_bit_for_bit(ranks: Ranks, lengths: tuple[int, ...]) -> None:
    pattern = os.urandom(4096)
    sent = [(pattern * (length // 4096 + 1))[:length] for length in lengths]
    for rank, report in enumerate(ranks.run(echo, blobs=sent)):
        assert report.ended == "done", report.story
        assert [*report.blobs] == [*sent, bytes([rank])]


def look_around(context: Context, payload: object, blobs: tuple[bytearray, ...]) -> Answer:
    import torch

    cores = sorted(os.sched_getaffinity(0))
    return [context.rank, context.pool_size, context.device, context.deadline, cores, torch.get_num_threads()], []


def test_a_rank_knows_itself_and_is_pinned(ranks: Ranks) -> None:
    cores = sorted(os.sched_getaffinity(0))
    for rank, found in enumerate(ranks.values(look_around, deadline=77, world_size=3)):
        assert found[0] == rank
        assert found[1] >= 3
        assert found[2:] == ["cpu", 77, [cores[rank % len(cores)]], 1]


def speak(context: Context, payload: str, blobs: tuple[bytearray, ...]) -> Answer:
    print(f"{payload} from Python", end="")
    print(f"{payload} error", file=sys.stderr)
    os.write(1, b", from below \xff")
    return None, []


def test_printing_harms_nothing_and_is_kept_by_run(ranks: Ranks) -> None:
    for word in ("first", "second"):
        for report in ranks.run(speak, word):
            assert report.ended == "done"
            assert (report.stdout, report.stderr) == (f"{word} from Python, from below \\xff", f"{word} error\n")


def speak_at_length(context: Context, payload: object, blobs: tuple[bytearray, ...]) -> Answer:
    print("x" * 1_000_000 + "the end")
    return None, []


def test_the_end_of_long_output_is_kept(ranks: Ranks) -> None:
    for report in ranks.run(speak_at_length):
        assert len(report.stdout) < 10_000
        assert report.stdout.endswith("xxthe end\n")


def note(context: Context, payload: list[int], blobs: tuple[bytearray, ...]) -> Answer:
    for index in payload:
        context.note(index)
    return None, []


NOTES = [([], None), ([0], 0), ([1, 2, 3], 3), ([-1], -1), ([2**62], 2**62)]


@pytest.mark.parametrize(("noted", "last"), NOTES)
def test_the_last_note_of_this_run_is_told(ranks: Ranks, noted: list[int], last: int | None) -> None:
    ranks.run(note, [5])
    assert [report.noted for report in ranks.run(note, noted)] == [last, last]
