"""A rank process: it joins the others, then performs what its control socket asks for, until that closes."""

from __future__ import annotations

import faulthandler
import importlib
import io
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from shardproof.errors import CouldNotJudge
from shardproof.ranks import process
from shardproof.ranks.birth import Birth
from shardproof.ranks.context import Context, Failed, world_group
from shardproof.ranks.entries import resolve
from shardproof.ranks.join import join
from shardproof.ranks.wire import Blob, Closed, Message, Outgoing, Receiver, encode

DUMP_SIGNAL = signal.SIGUSR1
_MAX_TEXT = 32 << 10


def be_rank(birth: Birth) -> NoReturn:
    """Be one rank. The process must already lead its own session."""
    control = socket.socket(fileno=birth.control)
    _redirect(birth)
    if birth.device == "cpu":
        process.pin(birth.rank)
    try:
        for module in birth.preload:
            importlib.import_module(module)
        context = Context(birth, join(birth))
    except CouldNotJudge as reason:
        _send(control, encode({"cannot": str(reason)}))
    except BaseException:
        _send(control, encode({"failed": _bounded(traceback.format_exc())}))
    else:
        _send(control, encode({"ready": True}))
        _serve(control, context)
    os._exit(0)


def _redirect(birth: Birth) -> None:
    """Send output to this rank's files, unbuffered, so that a crash loses none, and stacks to a file of their own."""
    for descriptor, kind in ((1, "out"), (2, "err")):
        file = os.open(birth.file(kind), os.O_WRONLY | os.O_APPEND)
        os.dup2(file, descriptor)
        os.close(file)
    sys.stdout = sys.__stdout__ = _unbuffered(1)  # type: ignore[misc]  # it is Final, yet held the helper's file
    sys.stderr = sys.__stderr__ = _unbuffered(2)  # type: ignore[misc]  # the same
    stacks = os.open(birth.file("stack"), os.O_WRONLY | os.O_APPEND)
    faulthandler.enable(stacks)
    faulthandler.register(DUMP_SIGNAL, stacks)


def _unbuffered(descriptor: int) -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(raw, "utf-8", "backslashreplace", write_through=True)


def _send(control: socket.socket, buffers: Sequence[memoryview]) -> None:
    try:
        Outgoing(buffers).push(control)
    except Closed:
        os._exit(0)


def _serve(control: socket.socket, context: Context) -> None:
    receiver, world = Receiver(control), world_group()
    while _serve_one(control, receiver, context, world):
        pass


def _serve_one(control: socket.socket, receiver: Receiver, context: Context, world: object) -> bool:
    """One run; what it held is given up on return. False when the parent is gone."""
    try:
        message = receiver.pull()
    except Closed:
        return False
    if message is not None:
        _send(control, _perform(context, message, world))
    return True


def _perform(context: Context, message: Message, world: object) -> Sequence[memoryview]:
    """Run the entry; the encoded answer, whatever happens."""
    started = time.perf_counter()
    answer, blobs = _attempt(context, message)
    answer["seconds"] = time.perf_counter() - started
    answer["spent"] = not _still_there(world)
    try:
        return encode(answer, blobs)
    except Exception as error:
        kept = {"seconds": answer["seconds"], "spent": answer["spent"]}
        return encode(_raised(error, "what the entry returned is not (JSON value, blobs): ", contained=True) | kept)


def _still_there(world: object) -> bool:
    """Whether the default group is the one this rank was born with."""
    try:
        return world_group() is world
    except RuntimeError:
        return False


def _attempt(context: Context, message: Message) -> tuple[dict[str, Any], Sequence[Blob]]:
    body = message.body
    try:
        function = resolve(body["entry"])
    except BaseException as error:
        return _raised(error, f"the entry {body['entry']!r} cannot be loaded: ", contained=True), ()
    if body["do"] == "load":
        return {"ended": "done", "value": None}, ()
    context.deadline = body["deadline"]
    context.begin(body["run"])
    try:
        value, blobs = _pair(function(context, body["payload"], message.blobs))
    except Failed as failed:
        cause = failed.__cause__ or failed.__context__ or failed
        return _raised(cause, contained=failed.contained) | {"value": failed.value}, failed.blobs
    except BaseException as error:
        return _raised(error), ()
    return {"ended": "done", "value": value}, blobs


def _pair(returned: object) -> tuple[Any, Sequence[Blob]]:
    if isinstance(returned, tuple) and len(returned) == 2:
        return returned
    raise TypeError(f"an entry returns (JSON value, blobs), this one returned {type(returned).__name__}")


def _raised(error: BaseException, before: str = "", *, contained: bool = False) -> dict[str, Any]:
    text = before + "".join(traceback.format_exception_only(error)).strip()
    stack = "".join(traceback.format_exception(error))
    return {"ended": "raised", "error": _bounded(text), "stack": _bounded(stack), "contained": contained}


def _bounded(text: str) -> str:
    """Text that fits into any message: its end, which says most, with what JSON cannot carry escaped."""
    short = text if len(text) <= _MAX_TEXT else f"...{text[-_MAX_TEXT:]}"
    return short.encode("utf-8", "backslashreplace").decode()


def main(told: Mapping[str, Any]) -> NoReturn:
    """Be the rank that `told` (a Birth) describes, in a program of its own."""
    be_rank(Birth(**told))
