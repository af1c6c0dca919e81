"""Where DeepSpeed is not installed, every test here says "could not judge" and how to install it."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from shardproof.implementations import KNOWN


@pytest.fixture(scope="session", autouse=True)
def _needs_deepspeed() -> None:
    if find_spec("deepspeed") is None:
        pytest.skip(f"could not judge: {KNOWN['deepspeed_zero3'].install}")
