"""Messages between the parent and a rank: one JSON value and raw blobs, length-prefixed. Nothing is unpickled.

A message is `magic, header bytes, blob bytes` (16 bytes, little-endian), then the header `[body, [blob lengths]]` as
JSON, then the blobs back to back. One message is in flight per socket and direction, so bytes after it are an error.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

Blob = bytes | bytearray | memoryview
PREFIX = struct.Struct("<4sIQ")
MAGIC = b"shp1"
MAX_HEADER = 64 << 20
MAX_BLOBS = 1 << 16
MAX_BLOB_BYTES = 4 << 30
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode  # made once: json.dumps makes one a call
_DECODE = json.JSONDecoder().decode
_CHUNK = 64 << 10
_BUFFERS_A_CALL = 512  # sendmsg takes at most IOV_MAX buffers, 1024 on every system of interest


class Malformed(Exception):  # noqa: N818  # says what is wrong with the bytes, as Closed does
    """The bytes that arrived are no message of this kind."""


class Closed(Exception):  # noqa: N818  # an event more than a fault
    """The other end is gone."""


@dataclass(frozen=True, slots=True)
class Message:
    """What arrived: a JSON value, and blobs that are the receiver's own to write to."""

    body: Any
    blobs: tuple[bytearray, ...]


def encode(body: object, blobs: Sequence[Blob] = ()) -> list[memoryview]:
    """Buffers to send, in order; blobs are not copied.

    Raises TypeError or ValueError where `body` is no JSON, a blob is no contiguous bytes, or a bound is passed.
    """
    views = [_flat(blob) for blob in blobs]
    total = sum(view.nbytes for view in views)
    header = _ENCODE([body, [view.nbytes for view in views]]).encode()
    _check_bounds(len(header), total, len(views))
    return [memoryview(PREFIX.pack(MAGIC, len(header), total) + header), *(view for view in views if view.nbytes)]


def _flat(blob: Blob) -> memoryview:
    view = memoryview(blob)
    return view.cast("B") if view.nbytes else memoryview(b"")  # an empty view cannot be cast


def _check_bounds(header: int, total: int, count: int) -> None:
    if header > MAX_HEADER or total > MAX_BLOB_BYTES or count > MAX_BLOBS:
        raise ValueError(
            f"a message of {header} header bytes and {count} blobs of {total} bytes is over a bound: "
            f"{MAX_HEADER}, {MAX_BLOBS} and {MAX_BLOB_BYTES}"
        )


class Outgoing:
    """A message on its way out of one socket, which may be blocking or not."""

    def __init__(self, buffers: Sequence[memoryview]) -> None:
        """Take what `encode` returned; the list itself is not changed and may be sent to other sockets too."""
        self._left = list(buffers)

    def push(self, sock: socket.socket) -> bool:
        """Send what the socket takes; whether all is sent. Raises Closed."""
        while self._left:
            try:
                sent = sock.sendmsg(self._left[:_BUFFERS_A_CALL])
            except BlockingIOError:
                return False
            except (BrokenPipeError, ConnectionResetError) as error:
                raise Closed("the other end is gone") from error
            self._drop(sent)
        return True

    def _drop(self, sent: int) -> None:
        whole = 0
        while whole < len(self._left) and sent >= self._left[whole].nbytes:
            sent -= self._left[whole].nbytes
            whole += 1
        del self._left[:whole]
        if sent:
            self._left[0] = self._left[0][sent:]


class Receiver:
    """Reads the messages of one socket, which may be blocking or not."""

    def __init__(self, sock: socket.socket) -> None:
        """Read from `sock`, which stays the caller's to close."""
        self._sock = sock
        self._chunk = memoryview(bytearray(_CHUNK))
        self._restart()

    def _restart(self) -> None:
        self._parser = self._parse()
        self._target = next(self._parser)

    def pull(self) -> Message | None:
        """The next message, or None where a non-blocking socket has no more for now. Raises Closed, Malformed."""
        while True:
            try:
                count = self._sock.recv_into(self._target)
            except BlockingIOError:
                return None
            except ConnectionResetError:
                count = 0
            if not count:
                raise Closed("the other end is gone")
            try:
                self._target = self._parser.send(count)
            except StopIteration as stop:
                self._restart()
                message: Message = stop.value
                return message

    def _parse(self) -> Generator[memoryview, int, Message]:
        """Yield where the next bytes go, be sent how many came, return the message."""
        head, filled = self._chunk, 0
        while filled < PREFIX.size:
            filled += yield head[filled:]
        magic, header_size, total = PREFIX.unpack_from(head)
        if magic != MAGIC:
            raise Malformed(f"a message starts with {magic!r} instead of {MAGIC!r}")
        end = PREFIX.size + header_size
        try:
            _check_bounds(header_size, total, 0)
        except ValueError as error:
            raise Malformed(str(error)) from None
        if end > len(head):
            longer = memoryview(bytearray(end))
            longer[:filled] = head[:filled]
            head = longer
        while filled < end:
            filled += yield head[filled:]
        body, lengths = _parse_header(head[PREFIX.size : end], total)
        blobs = tuple(bytearray(length) for length in lengths)
        for blob in blobs:
            view = memoryview(blob)
            have = min(len(blob), filled - end)
            view[:have] = head[end : end + have]
            end += have
            while have < len(blob):
                have += yield view[have:]
        if end < filled:
            raise Malformed(f"{filled - end} bytes follow a message")
        return Message(body, blobs)


def _parse_header(header: memoryview, total: int) -> tuple[Any, list[int]]:
    try:
        parsed = _DECODE(str(header, "utf-8"))
        body, lengths = parsed
        _check_bounds(0, total, len(lengths))
    except (ValueError, TypeError, RecursionError) as error:
        raise Malformed(f"a message's header is not [body, [blob lengths]] as JSON: {error}") from None
    if lengths or total:
        _check_lengths(lengths, total)
    return body, lengths


def _check_lengths(lengths: list[object], total: int) -> None:
    whole = [length for length in lengths if type(length) is int and length >= 0]
    if len(whole) < len(lengths) or sum(whole) != total:
        raise Malformed(f"a message's blob lengths do not add up to its {total} blob bytes")
