"""Whatever ends the process that owns a pool: no process, no file and no zombie is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import shardproof.ranks
from shardproof.ranks import Context

Answer = tuple[object, list[bytes]]
HOME = Path(shardproof.ranks.__file__).resolve().parents[2]
_PATIENCE = 60.0  # the test returns as soon as everything is gone; only a failure waits this long


def populate(context: Context, payload: object, blobs: object) -> Answer:
    """Leave a child, and a grandchild in a session of its own."""
    subprocess.Popen(["sleep", "3600"])
    subprocess.Popen(["sh", "-c", "setsid sleep 3600 & exit"]).wait()
    return None, []


def populate_and_hang(context: Context, payload: object, blobs: object) -> Answer:
    populate(context, payload, blobs)
    if context.rank == 0:
        print("hanging", file=open(payload, "w"), flush=True)  # type: ignore[call-overload]  # noqa: SIM115  # a marker
    time.sleep(3600)
    return None, []


_START = f"""
import os, signal, sys, threading, time
from pathlib import Path
from shardproof.errors import UsageError
from shardproof.ranks import Pool
pool = Pool(2)
marker = Path(os.environ["TMPDIR"], "marker")
def run():
    return pool.run("{__file__}:populate")
def hang():
    return pool.run("{__file__}:populate_and_hang", str(marker), deadline=3600)
def when_hanging(act):
    def wait():
        while not marker.exists():
            time.sleep(0.01)
        act()
    threading.Thread(target=wait, daemon=True).start()
def interrupt_a_run():
    when_hanging(kill(signal.SIGINT))
    try:
        hang()
    except KeyboardInterrupt:
        return
    raise AssertionError("no interrupt")
def files():
    return sorted(os.walk(os.environ["TMPDIR"]))
def use_in_fork():
    try:
        run()
    except UsageError as error:
        pool.close()
        os._exit(0 if "forked from" in str(error) else 1)
    os._exit(2)
def outlive():
    while os.listdir(os.environ["TMPDIR"]):
        time.sleep(0.02)
    os._exit(0)
def kill(number):
    return lambda: os.kill(os.getpid(), number)
"""

# how the owner ends: its code, its exit status
ENDINGS = {
    "closed": ("run(); pool.close(); assert not os.listdir(os.environ['TMPDIR']); pool.close()", 0),
    "closed at once": ("pool.close()", 0),
    "end of program": ("run()", 0),
    "end of program at once": ("", 0),
    "collected": ("run(); del pool; assert not os.listdir(os.environ['TMPDIR'])", 0),
    "killed idle": ("run(); kill(signal.SIGKILL)()", -signal.SIGKILL),
    "killed at once": ("kill(signal.SIGKILL)()", -signal.SIGKILL),
    "killed in a run": ("when_hanging(kill(signal.SIGKILL)); hang()", -signal.SIGKILL),
    "interrupted, goes on": ("interrupt_a_run(); assert run()[1].ended == 'done'", 0),
    "used by a fork": (
        "run(); left = files(); os.fork() or use_in_fork(); assert os.wait()[1] == 0; assert files() == left; run()",
        0,
    ),
    "killed, a child holds on": ("run(); os.fork() or outlive(); kill(signal.SIGKILL)()", -signal.SIGKILL),
}


@pytest.mark.parametrize(("code", "status"), ENDINGS.values(), ids=ENDINGS.keys())
def test_nothing_is_left_behind(tmp_path: Path, code: str, status: int) -> None:
    with Path(tmp_path.parent, f"{tmp_path.name}.log").open("w+b") as log:
        owner = subprocess.run(
            [sys.executable, "-c", f"{_START}\n{code}"],
            env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(HOME)},
            stdout=log,
            stderr=log,
            check=False,
        )
        log.seek(0)
        assert owner.returncode == status, log.read().decode()
    until = time.monotonic() + _PATIENCE
    while _left(tmp_path) and time.monotonic() < until:
        time.sleep(0.02)
    assert _left(tmp_path) == []


def _left(directory: Path) -> list[str]:
    """Processes that have `directory` in their environment, and files of the pool in it."""
    files = [str(file) for file in directory.iterdir() if file.name != "marker"]
    return files + [f"process {pid}" for pid in os.listdir("/proc") if pid.isdigit() and _has(pid, directory)]


def _has(pid: str, directory: Path) -> bool:
    try:
        return f"TMPDIR={directory}\0".encode() in Path("/proc", pid, "environ").read_bytes()
    except OSError:
        return False
