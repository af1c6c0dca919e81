"""The channel between the parent and the helper: JSON lines, which may carry open files along."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from shardproof.ranks.wire import Closed, Malformed

_MAX_LINE = 1 << 20
_MAX_FILES = 253  # what one message can carry on Linux


class Lines:
    """JSON objects over a stream socket, one a line, with the descriptors that came along."""

    def __init__(self, sock: socket.socket) -> None:
        """Own `sock` from now on."""
        self.socket = sock
        self.files: list[int] = []
        self._partial = b""

    def send(self, message: Mapping[str, Any], files: Sequence[int] = ()) -> None:
        """Send one message, `files` with its first byte. Raises Closed."""
        data = json.dumps(message).encode() + b"\n"
        try:
            sent = socket.send_fds(self.socket, [data], files) if files else 0
            self.socket.sendall(data[sent:])
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed("the other end is gone") from error

    def receive(self) -> list[dict[str, Any]]:
        """Every whole message that one read brings; `files` then holds what came along. Raises Closed, Malformed."""
        try:
            data, files, _, _ = socket.recv_fds(self.socket, 1 << 16, _MAX_FILES)
        except ConnectionResetError:
            data, files = b"", []
        self.files += files
        if not data:
            raise Closed("the other end is gone")
        *whole, self._partial = (self._partial + data).split(b"\n")
        if len(self._partial) > _MAX_LINE:
            raise Malformed("a line without an end")
        return [_parse(line) for line in whole]

    def close(self) -> None:
        """Close the socket; the other end notices."""
        self.socket.close()


def _parse(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError as error:
        raise Malformed(f"a line is no JSON: {error}") from None
    if not isinstance(message, dict):
        raise Malformed("a line is no JSON object")
    return message
