"""`shardproof prove`: the layout formulas for every numel, world size and alignment, by solver instead of by trying."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from reference import DTYPES, FlatPadded
from shardproof.errors import UsageError
from shardproof.names import unknown
from shardproof.proofs import CLAIMS, Claim, Proof, prove
from shardproof.proofs.exhaustive import Trial, try_all
from shardproof.proofs.overflow import Overflow, chunked, flat_padded, overflows
