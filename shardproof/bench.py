"""What the shipped gather costs against the bare collective and against allocate-gather-copy, in one run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from shardproof.errors import CouldNotJudge
from shardproof.ranks import Pool

_ENTRY = "shardproof.rank_side.costs:measure"
_DEADLINE = 300.0
BARE, SHIPPED, REPLACED = "bare collective", "shipped gather", "allocate, gather, copy"
VARIANTS = (SHIPPED, BARE, REPLACED, "allocation alone", "copy alone")


@dataclass(frozen=True, slots=True)
class Row:
    """Median seconds a call at one world size and numel, slowest rank, by variant; host seconds beside them."""

    world_size: int
    numel: int
    padded_bytes: int
    device: Mapping[str, float]
    host: Mapping[str, float]

    @property
    def over_bare(self) -> float:
        """The shipped gather over the bare collective."""
        return self.device[SHIPPED] / self.device[BARE]

    @property
    def replaced_over_shipped(self) -> float:
        """How many times dearer allocate, gather and copy is than the shipped gather."""
        return self.device[REPLACED] / self.device[SHIPPED]


def measure(
    world_sizes: Sequence[int],
    numels: Sequence[int],
    *,
    device: str = "cpu",
    dtype: str = "float32",
    itemsize: int = 4,
    rounds: int = 15,
    calls: int = 20,
) -> Iterator[Row]:
    """Rows by world size and numel. Raises CouldNotJudge where ranks did not come back."""
    with Pool(max(world_sizes), device=device, preload=("gpu_impl",)) as pool:
        for world_size in world_sizes:
            ranks = list(range(world_size))
            payload = {"ranks": ranks, "numels": list(numels), "dtype": dtype, "rounds": rounds, "calls": calls}
            reports = pool.run(_ENTRY, payload, ranks=ranks, deadline=_DEADLINE)
            lost = [report.story for report in reports if report.ended != "done"]
            if lost:
                raise CouldNotJudge("\n".join(lost))
            for numel in numels:
                seen = [report.value[str(numel)] for report in reports]
                device_s, host_s = (
                    {name: max(rank[name][clock] for rank in seen) for name in VARIANTS} for clock in ("device", "host")
                )
                padded = -(-numel // world_size) * world_size * itemsize
                yield Row(world_size, numel, padded, device_s, host_s)
