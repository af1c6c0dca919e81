"""Messages: what is sent arrives, and what is no message is refused."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardproof.ranks import wire
from shardproof.ranks.wire import Closed, Malformed, Outgoing, Receiver, encode

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    here, there = socket.socketpair()
    with here, there:
        yield here, there


@given(body=JSON, blobs=st.lists(st.binary(max_size=200_000), max_size=4), piece=st.integers(1, 100_000))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
def test_a_message_arrives_in_whatever_pieces(
    pair: tuple[socket.socket, socket.socket], body: object, blobs: list[bytes], piece: int
) -> None:
    here, there = pair
    there.setblocking(False)
    receiver, data = Receiver(there), b"".join(encode(body, blobs))
    pieces = [data[start : start + piece] for start in range(0, len(data), piece)][:400]
    pieces.append(data[sum(map(len, pieces)) :])
    message = None
    for part in filter(None, pieces):
        assert message is None
        here.sendall(part)
        message = receiver.pull()
    assert message is not None
    assert (message.body, [*message.blobs]) == (body, blobs)


@pytest.mark.parametrize("blob", [bytearray(b"abc"), memoryview(b"abc"), memoryview(b"abcd").cast("H"), b""])
def test_any_contiguous_bytes_are_a_blob(pair: tuple[socket.socket, socket.socket], blob: bytes) -> None:
    here, there = pair
    assert Outgoing(encode(None, [blob, b"x"])).push(here)
    message = Receiver(there).pull()
    assert message is not None
    assert [*message.blobs] == [bytes(blob), b"x"]


def raw(header: bytes, *, magic: bytes = wire.MAGIC, size: int | None = None, total: int = 0) -> bytes:
    return struct.pack("<4sIQ", magic, len(header) if size is None else size, total) + header


def feed(receiver: Receiver, here: socket.socket, data: bytes) -> None:
    while data:
        data = data[here.send(data[:50_000]) :]
        receiver.pull()


MALFORMED = {
    "magic": (raw(b"[0,[]]", magic=b"HTTP"), "starts with b'HTTP'"),
    "long header": (raw(b"", size=wire.MAX_HEADER + 1), "over a bound"),
    "long blobs": (raw(b"[0,[]]", total=wire.MAX_BLOB_BYTES + 1), "over a bound"),
    "many blobs": (raw(b"[0,[" + b"0," * wire.MAX_BLOBS + b"0]]"), "over a bound"),
    "no JSON": (raw(b"[0,[]"), "as JSON"),
    "no text": (raw(b"\xff"), "as JSON"),
    "deep": (raw(b"[" * 100_000), "as JSON"),
    "no pair": (raw(b"[0]"), "as JSON"),
    "no list": (raw(b"3"), "as JSON"),
    "no lengths": (raw(b"[0,3]"), "as JSON"),
    "sum": (raw(b"[0,[1,2]]", total=4), "do not add up"),
    "no sum": (raw(b"[0,[]]", total=4), "do not add up"),
    "negative": (raw(b"[0,[5,-1]]", total=4), "do not add up"),
    "float": (raw(b"[0,[4.0]]", total=4), "do not add up"),
    "bool": (raw(b"[0,[true]]", total=1), "do not add up"),
    "more": (raw(b"[0,[]]") + b"!", "1 bytes follow a message"),
}


@pytest.mark.parametrize(("data", "error"), MALFORMED.values(), ids=MALFORMED.keys())
def test_what_is_no_message_is_refused(pair: tuple[socket.socket, socket.socket], data: bytes, error: str) -> None:
    here, there = pair
    there.setblocking(False)
    receiver = Receiver(there)
    with pytest.raises(Malformed, match=error):
        feed(receiver, here, data)


@pytest.mark.parametrize("sent", [0, 5, 16, 20])
def test_an_end_within_a_message_is_told(pair: tuple[socket.socket, socket.socket], sent: int) -> None:
    here, there = pair
    here.sendall(raw(b"[0,[]]")[:sent])
    here.close()
    with pytest.raises(Closed):
        Receiver(there).pull()


UNSENDABLE = [({1}, (), TypeError), (0, ["text"], TypeError), (0, [memoryview(b"abcd")[::2]], TypeError)]
OVER_BOUND = [("x" * (wire.MAX_HEADER + 1), ()), (0, [b""] * (wire.MAX_BLOBS + 1))]


@pytest.mark.parametrize(("body", "blobs", "error"), [*UNSENDABLE, *((*case, ValueError) for case in OVER_BOUND)])
def test_what_cannot_be_a_message_is_not_sent(body: object, blobs: list[bytes], error: type[Exception]) -> None:
    with pytest.raises(error):
        encode(body, blobs)
