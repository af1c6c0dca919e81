"""One agreement among all ranks: does everybody say the same, and can everybody go on?

The usual case costs one all-gather of a few numbers, whatever is compared. Only where ranks disagree does a second one
fetch what each had to say. Every rank takes part in both, so that nobody waits for one that has already given up.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import torch
import torch.distributed as dist

from gpu_impl.seam import all_gather

_DIGEST_WORDS = 4


def exchange(
    text: str, *, objects: bool, group: dist.ProcessGroup, device: torch.device
) -> tuple[tuple[bool, str], ...] | None:
    """None where every rank gave the same `text` and none objects, else (objects, text) of every rank, in rank order.

    Raises what the backend raises.
    """
    said = text.encode()
    digest = blake2b(said, digest_size=8 * _DIGEST_WORDS).digest()
    words = [int.from_bytes(digest[8 * i : 8 * i + 8], "little", signed=True) for i in range(_DIGEST_WORDS)]
    rows = _gathered([int(objects), len(said), *words], torch.int64, group, device)
    if not any(row[0] for row in rows) and all(row == rows[0] for row in rows):
        return None
    longest = max(row[1] for row in rows)
    # An empty message would be an empty collective: one byte more is always sent.
    texts = _gathered([*said, *bytes(longest + 1 - len(said))], torch.uint8, group, device)
    return tuple((bool(row[0]), bytes(sent[: row[1]]).decode()) for row, sent in zip(rows, texts, strict=True))


def on_ranks(ranks: Sequence[int]) -> str:
    """Ranks in words: "rank 1", "ranks 0, 2-4"."""
    spans: list[list[int]] = []
    for rank in sorted(ranks):
        if spans and rank == spans[-1][-1] + 1:
            spans[-1] = [spans[-1][0], rank]
        else:
            spans.append([rank])
    listed = ", ".join("-".join(map(str, span)) for span in spans)
    return f"rank{'s' if len(ranks) > 1 else ''} {listed}"


def _gathered(
    row: Sequence[int], dtype: torch.dtype, group: dist.ProcessGroup, device: torch.device
) -> list[list[int]]:
    """Every rank's row, all of the same length."""
    send = torch.tensor(row, dtype=dtype, device=device)
    receive = torch.empty(group.size() * len(row), dtype=dtype, device=device)
    all_gather(receive, send, group)
    rows: list[list[int]] = receive.view(group.size(), len(row)).tolist()
    return rows
