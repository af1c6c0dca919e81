"""Runs one case on ranks and judges it: the pool, the model and the laws put together."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from invariants import LAWS, Judgement, Law
from shardproof.backends import BACKEND_OF
from shardproof.case import Case, LayoutSpec
from shardproof.case_file import encode
from shardproof.errors import CouldNotJudge, UsageError
from shardproof.implementations import resolve
from shardproof.ranks import Pool, PoolError, RankReport
from shardproof.running import Run, Running, Verdict

# Two bytes that fresh memory and padding are filled with: NaN or -1 everywhere, and an ordinary number.
_POISONS = (0xFF, 0x3B)
# One case in this many runs twice, under both poisons.
_TWICE_EVERY = 8
# Seconds that an implementation may take when it is first used: some compile their operations then.
_FIRST_USE = 180.0
_ENTRY = "shardproof.rank_side.entry"


@dataclass(frozen=True, slots=True)
class Description:
    """What is under test: how it was named, what it offers and promises, which layouts and alignments it has.

    `specs`, where there are any, are the only layouts that it may be asked for.
    """

    name: str
    target: str
    form: str
    offers: tuple[str, ...]
    promises: tuple[str, ...]
    layouts: tuple[str, ...]
    alignments: tuple[int, ...]
    needs_default_group: bool
    doc: str
    torch: str
    backend: str
    specs: tuple[LayoutSpec, ...] = ()


class Engine:
    """An implementation on a pool of ranks.

    Raises UsageError where the name is none or leads to no implementation, CouldNotJudge where a known one cannot be
    imported.
    """

    def __init__(
        self, name: str, *, device: str = "cpu", pool_size: int = 8, deadline: float = 10.0, grace: float = 1.0
    ) -> None:
        """Start the pool and ask rank 0 what the implementation is. `deadline` and `grace` are seconds, the pool's."""
        self._target = resolve(name)
        self._device = device
        self._deadline, self._grace = deadline, grace
        self._folder = Path(tempfile.mkdtemp(prefix="shardproof-"))
        self._pools: dict[int, Pool] = {}
        self._pool_size = pool_size
        self._default_group = False
        try:
            self._put_under_test(self._describe(name))
        except BaseException:
            self.close()
            raise
        if self.description.needs_default_group:
            self._drop_pools()
            self._default_group = True

    def __enter__(self) -> Engine:
        """Nothing more to open."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """End every rank and remove what was written."""
        self._drop_pools()
        shutil.rmtree(self._folder, ignore_errors=True)

    def renew(self) -> None:
        """Go on with fresh ranks: what one case left behind in a process cannot show in the next."""
        for pool in self._pools.values():
            pool.renew()

    def switch(self, name: str) -> None:
        """Put another implementation under test, on the same ranks. Raises UsageError as the constructor does.

        Only for one that needs the default group as little as the first did.
        """
        self._target = resolve(name)
        self._put_under_test(self._describe(name))

    def _put_under_test(self, description: Description) -> None:
        self.description = description
        laws = [law for law in LAWS if not law.is_promise or law.slug in description.promises]
        self._applying = tuple((law, _unmet(law, description)) for law in laws)

    def laws(self) -> tuple[Law[Any], ...]:
        """The laws that apply: all but the promises that the implementation does not make."""
        return tuple(law for law, _ in self._applying)

    def judge(self, case: Case, *, twice: bool | None = None, only: Sequence[str] = ()) -> Verdict:
        """Run a case and apply the laws (`only` these, where given). `twice`: under both poisons, None: on a sample."""
        running = self.prepare(case, twice=twice, only=only)
        running.begin()
        running.wait()
        return running.verdict()

    def prepare(self, case: Case, *, twice: bool | None = None, only: Sequence[str] = ()) -> Running:
        """What `judge` does, to be done step by step; the ranks have not heard of it yet."""
        encoded = encode(case)
        again = _sampled(encoded) if twice is None else twice
        runs = [self._run(case, encoded, poison) for poison in _POISONS[: 1 + again]]
        return Running(case, [one for one in self._applying if not only or one[0].slug in only], runs)

    def _run(self, case: Case, encoded: str, poison: int) -> Run:
        place = self._place_for(case)
        folder = str(place or self._folder)
        payload = {"case": encoded, "target": self._target.target, "folder": folder, "poison": poison}
        return Run(case, payload, self._pool, self._deadline, BACKEND_OF[self._device], place)

    def _place_for(self, case: Case) -> Path | None:
        """A folder of the run's own where the case saves anything: what an earlier run saved must not be loaded."""
        if all(operation.kind != "save" for operation in case.program):
            return None
        return Path(tempfile.mkdtemp(dir=self._folder))

    def _pool(self, case: Case | None) -> Pool:
        """One pool for every case, or one a world size where the default group is needed."""
        size = self._pool_size if case is None or not self._default_group else case.pool_size
        size = max(size, case.pool_size if case else 1)
        if size not in self._pools:
            if not self._default_group:
                self._drop_pools()
            self._pools[size] = Pool(
                size,
                device=self._device,
                preload=self._target.preload,
                default_group=self._default_group,
                grace=self._grace,
            )
            self._pool_size = max(size, self._pool_size)
        return self._pools[size]

    def _drop_pools(self) -> None:
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()

    def _describe(self, name: str) -> Description:
        report = self._first_report(name)
        problem = report.value["problem"] if report.ended == "done" and "problem" in report.value else ""
        if report.ended != "done":
            problem = f"{self._target.target} {report.headline} when it was first used\n{report.stderr}"
        if problem:
            raise UsageError(
                "this cannot be used as an implementation",
                where=f"--impl {name}",
                observed=problem.strip(),
                todo="docs/write-an-implementation.md shows the two functions that are needed",
            )
        said: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in report.value.items()
        }
        try:
            said["specs"] = tuple(LayoutSpec(**spec) for spec in said["specs"])
        except TypeError as error:
            raise UsageError("these specs are no layouts", where=f"--impl {name}", observed=str(error)) from error
        return Description(name=name, target=self._target.target, backend=BACKEND_OF[self._device], **said)

    def _first_report(self, name: str) -> RankReport:
        """What rank 0 says of the implementation, once all ranks have imported it."""
        payload, deadline = {"target": self._target.target}, max(_FIRST_USE, self._deadline)
        try:
            return self._pool(None).run(f"{_ENTRY}:describe", payload, ranks=[0], deadline=deadline)[0]
        except PoolError as error:
            if not self._target.install:
                raise
            raise CouldNotJudge(f"{name} needs what is not here; {self._target.install}\n{error}") from error


def _unmet(law: Law[Any], description: Description) -> Judgement | None:
    """Why a law cannot be judged of this implementation, if so."""
    lacking = [need for need in law.needs if need not in description.offers and need != "register"]
    return Judgement(law.slug, 0, reason=f"{description.name} does not offer {', '.join(lacking)}") if lacking else None


def _sampled(encoded: str) -> bool:
    return hashlib.blake2b(encoded.encode(), digest_size=2).digest()[0] % _TWICE_EVERY == 0
