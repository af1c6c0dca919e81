"""The search that the conformance tests read."""

from __future__ import annotations

import pytest

from shardproof.conformance.shared import Told, once


@pytest.fixture(scope="session")
def conformance(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Told]:
    """Every judged law's outcome for `--impl`, searched at `--shardproof-profile`."""
    option = request.config.getoption
    base = tmp_path_factory.getbasetemp()
    folder = base.parent if hasattr(request.config, "workerinput") else base
    return once(folder, lambda: _search(option("--impl"), option("--shardproof-profile")))


def _search(implementation: str, profile: str) -> dict[str, Told]:
    from shardproof.engine import Engine
    from shardproof.profiles import PROFILES
    from shardproof.reporters.saving import saving
    from shardproof.reporters.words import found
    from shardproof.results import Destination
    from shardproof.search import Plan, search

    destination = Destination()
    with Engine(implementation) as engine:
        result = search(engine, Plan(budget=PROFILES[profile], destination=destination), [saving(destination)])
    told = {law.law: Told(law.outcome, law.reason) for law in result.laws}
    told |= {finding.law: Told("broken", found(finding)) for finding in result.findings}
    missing = f"no case was drawn with: {', '.join(result.missing)}" if result.missing else ""
    return told | {"*": Told("broken" if missing else "held", missing)}
