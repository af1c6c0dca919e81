"""Every way in which a rank can end, how it is told, and that the pool serves the next run all the same."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shardproof.pytest_plugin import Ranks
from shardproof.ranks import Context, Failed, RankReport
from shardproof.ranks.wire import Outgoing, encode

Answer = tuple[object, list[bytes]]
Misdeed = Callable[[], object]


def _interrupt() -> None:
    raise KeyboardInterrupt


def _raise_itself_unprintable() -> None:
    class Unprintable(Exception):  # noqa: N818  # its name is all that can be told
        def __str__(self) -> str:
            raise RuntimeError("no text")

    raise Unprintable


def _segfault() -> None:
    ctypes.string_at(0)


def _overflow_stack() -> None:
    _overflow_stack()


def _loop() -> None:
    while True:
        pass


def _line_to_parent() -> socket.socket:
    """The control socket: the only Unix one a rank has, as gloo's are TCP."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found = socket.socket(fileno=int(name))
            if found.family == socket.AF_UNIX:
                return found
            found.detach()
    raise LookupError("no Unix socket")


def _hang_up() -> None:
    _line_to_parent().close()
    time.sleep(3600)


def _answer_garbage() -> None:
    _line_to_parent().send(b"what a rank never says")
    time.sleep(3600)


def _answer_nonsense() -> None:
    Outgoing(encode({"ended": "well"})).push(_line_to_parent())
    time.sleep(3600)


def _start_what_never_ends() -> None:
    threading.Thread(target=_loop, daemon=False).start()
    raise ValueError("a thread of mine still runs")


MISDEEDS: dict[str, Misdeed] = {
    "raise": lambda: 1 // 0,
    "exit": lambda: sys.exit(3),
    "interrupt": _interrupt,
    "unprintable": _raise_itself_unprintable,
    "recursion": _overflow_stack,
    "thread": _start_what_never_ends,
    "_exit 0": lambda: os._exit(0),
    "_exit 7": lambda: os._exit(7),
    "abort": os.abort,
    "segfault": _segfault,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "loop": _loop,
    "sleep": lambda: time.sleep(3600),
    "sleep in C": lambda: ctypes.CDLL(None).sleep(3600),
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "hang up": _hang_up,
    "garbage": _answer_garbage,
    "nonsense": _answer_nonsense,
}


def misbehave(context: Context, payload: tuple[str, int], blobs: object) -> Answer:
    """Rank 1 of two does what `payload` names, while rank 0 waits for it in a collective."""
    import torch
    import torch.distributed as dist

    context.note(payload[1])
    group = context.group((0, 1))  # made first, so that it is the collective that rank 0 waits in
    if context.rank == 1:
        print("about to do it", flush=True)
        MISDEEDS[payload[0]]()
    dist.all_reduce(torch.ones(1), group=group)
    return None, []


def fine(context: Context, payload: object, blobs: object) -> Answer:
    import torch
    import torch.distributed as dist

    total = torch.ones(1)
    dist.all_reduce(total, group=context.group((0, 1)))
    return total.item(), []


# misdeed, deadline, how rank 1 ended, exit code, signal, what its error says, what its stack says
ENDS = [
    ("raise", 30, "raised", None, None, "ZeroDivisionError: ", "in misbehave"),
    ("exit", 30, "raised", None, None, "SystemExit: 3", "in misbehave"),
    ("interrupt", 30, "raised", None, None, "KeyboardInterrupt", "_interrupt"),
    ("unprintable", 30, "raised", None, None, "Unprintable: <exception str() failed>", "in misbehave"),
    ("recursion", 30, "raised", None, None, "RecursionError: ", "_overflow_stack"),
    ("thread", 30, "raised", None, None, "ValueError: a thread of mine still runs", "in misbehave"),
    ("_exit 0", 30, "exited", 0, None, "", ""),
    ("_exit 7", 30, "exited", 7, None, "", ""),
    ("abort", 30, "signalled", None, signal.SIGABRT, "", "in misbehave"),
    ("segfault", 30, "signalled", None, signal.SIGSEGV, "", "_segfault"),
    ("kill", 30, "signalled", None, signal.SIGKILL, "", ""),
    ("loop", 1, "hung", None, None, "had not finished within 1 s", "_loop"),
    ("sleep", 1, "hung", None, None, "had not finished within 1 s", "in misbehave"),
    ("sleep in C", 1, "hung", None, None, "had not finished within 1 s", "in misbehave"),
    ("stop", 1, "hung", None, None, "had not finished within 1 s", ""),
    ("hang up", 30, "hung", None, None, "after rank 1 closed its socket", "_hang_up"),
    ("garbage", 30, "raised", None, None, "did not answer properly: a message starts with b'what'", ""),
    ("nonsense", 30, "raised", None, None, "did not answer properly: {'ended': 'well'}", ""),
]


@pytest.mark.parametrize(("misdeed", "deadline", "ended", "exit_code", "signal_", "error", "stack"), ENDS)
def test_one_rank_misbehaves_while_the_other_waits(
    ranks: Ranks,
    misdeed: str,
    deadline: float,
    ended: str,
    exit_code: int | None,
    signal_: int | None,
    error: str,
    stack: str,
) -> None:
    waiting, bad = ranks.run(misbehave, (misdeed, 41), deadline=deadline)
    assert (bad.ended, bad.exit_code, bad.signal) == (ended, exit_code, signal_), bad.story
    assert error in bad.error, bad.story
    assert stack in bad.stack, bad.story
    assert bad.stdout == "about to do it\n"
    assert (bad.noted, waiting.noted) == (41, 41)
    assert waiting.ended != "done", waiting.story
    assert ranks.values(fine) == [2.0, 2.0]


@pytest.mark.parametrize(("misdeed", "past"), [("raise", "raised (ZeroDivisionError"), ("thread", "raised")])
def test_a_rank_that_waits_for_one_that_raised_is_hung_and_says_so(ranks: Ranks, misdeed: str, past: str) -> None:
    waiting, _ = ranks.run(misbehave, (misdeed, 0), deadline=300)
    assert waiting.ended == "hung", waiting.story
    assert f"after rank 1 {past}" in waiting.error
    assert "it may be waiting for that rank" in waiting.error
    assert "all_reduce" in waiting.stack


def compute_on(context: Context, payload: float, blobs: object) -> Answer:
    if context.rank == 1:
        raise ValueError("at once")
    until = time.process_time() + payload
    while time.process_time() < until:
        pass
    return None, []


def test_a_rank_that_still_works_is_not_given_up_when_another_raised(ranks: Ranks) -> None:
    working, raised = ranks.run(compute_on, 2.5, deadline=300)
    assert (working.ended, raised.ended) == ("done", "raised"), working.story


def refuse(context: Context, payload: dict[str, bool], blobs: object) -> Answer:
    try:
        raise LookupError("refused here")
    except LookupError as error:
        raise Failed({"pid": os.getpid()}, [b"kept"], contained=payload["contained"]) from error


@pytest.mark.parametrize("contained", [True, False])
def test_a_contained_error_keeps_the_ranks_and_what_they_found(ranks: Ranks, contained: bool) -> None:
    first, second = (ranks.run(refuse, {"contained": contained}) for _ in range(2))
    for report in (*first, *second):
        assert (report.ended, report.error, report.blobs) == ("raised", "LookupError: refused here", (b"kept",))
        assert "in refuse" in report.stack
    assert ([report.value for report in first] == [report.value for report in second]) is contained


def returns(context: Context, payload: str, blobs: object) -> object:
    circle: list[object] = []
    circle.append(circle)
    deep: object = 0
    for _ in range(100_000):
        deep = [deep]
    return {
        "no pair": 3,
        "no JSON": ({1, 2}, []),
        "circle": (circle, []),
        "deep": (deep, []),
        "no bytes": (None, ["text"]),
        "strided": (None, [memoryview(b"abcd")[::2]]),
    }[payload]


UNSENDABLE = [
    ("no pair", "TypeError: an entry returns (JSON value, blobs), this one returned int"),
    ("no JSON", "set is not JSON serializable"),
    ("circle", "Circular reference"),
    ("deep", "RecursionError"),
    ("no bytes", "bytes-like"),
    ("strided", "contiguous"),
]


@pytest.mark.parametrize(("kind", "error"), UNSENDABLE)
def test_an_answer_that_cannot_be_sent_is_told_as_raised(ranks: Ranks, kind: str, error: str) -> None:
    for report in ranks.run(returns, kind):
        assert report.ended == "raised"
        assert error in report.error
    assert ranks.values(fine) == [2.0, 2.0]


BAD_ENTRIES = [
    ("no_such_module_anywhere:run", "ModuleNotFoundError"),
    ("os:no_such_function", "AttributeError"),
    ("os:sep", "is not a function"),
    ("plain", "neither pkg.mod:function nor /path/file.py:function"),
    ("/no/such/file.py:run", "FileNotFoundError"),
]


@pytest.mark.parametrize(("entry", "error"), BAD_ENTRIES)
def test_an_entry_that_cannot_be_loaded_is_told_as_raised(ranks: Ranks, entry: str, error: str) -> None:
    for report in ranks.run(entry):
        assert report.ended == "raised"
        assert f"the entry {entry!r} cannot be loaded: " in report.error
        assert error in report.error
    assert ranks.values(fine) == [2.0, 2.0]


def leave_group(context: Context, payload: object, blobs: object) -> Answer:
    import torch.distributed as dist

    dist.destroy_process_group()
    return None, []


def test_ranks_that_destroyed_their_default_group_are_replaced(ranks: Ranks) -> None:
    assert ranks.values(leave_group) == [None, None]
    assert ranks.values(fine) == [2.0, 2.0]


HARM = {"rank": "dist.destroy_process_group()", "process": "import os; os._exit(9)"}


@pytest.mark.parametrize("harm", HARM)
def test_a_module_that_does_harm_when_it_is_loaded_is_told(ranks: Ranks, tmp_path: Path, harm: str) -> None:
    file = tmp_path / f"{harm}.py"
    file.write_text(f"import torch.distributed as dist\n{HARM[harm]}\ndef entry(*_): return None, []\n")
    first, _ = ranks.run(f"{file}:entry")
    assert (first.ended, first.exit_code) == {"rank": ("raised", None), "process": ("exited", 9)}[harm], first.story
    assert ranks.values(fine) == [2.0, 2.0]


def abort_in_gloo(context: Context, payload: object, blobs: object) -> Answer:
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(3 + 100 * context.rank), group=context.group((0, 1)))
    return None, []


def test_what_cpp_code_printed_before_it_aborted_is_kept(ranks: Ranks) -> None:
    reports = ranks.run(abort_in_gloo, deadline=5)
    lost = [report for report in reports if report.ended == "signalled"]
    assert [report.signal for report in lost] == [signal.SIGABRT] * len(lost)
    assert all("what():" in report.stderr for report in lost)
    assert lost


def story_of(**fields: object) -> str:
    return RankReport(rank=2, ended=fields.pop("ended"), seconds=1.5, **fields).story  # type: ignore[arg-type]


STORIES = [
    ({"ended": "done"}, "rank 2 done after 1.50 s"),
    ({"ended": "exited", "exit_code": 3}, "rank 2 exited with code 3 after 1.50 s"),
    (
        {"ended": "signalled", "signal": 6, "stderr": "a\nb\n"},
        "rank 2 signalled by SIGABRT after 1.50 s\n  stderr:\n    a\n    b",
    ),
    ({"ended": "hung", "error": "why", "noted": 4}, "rank 2 hung (why) after 1.50 s\n  last noted: 4"),
]


@pytest.mark.parametrize(("fields", "story"), STORIES)
def test_a_story_is_a_headline_and_what_was_left(fields: dict[str, object], story: str) -> None:
    assert story_of(**fields) == story
