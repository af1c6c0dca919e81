"""Proofs of the layout formulas for every numel, world size and alignment."""

from shardproof.proofs.claims import CLAIMS, Claim
from shardproof.proofs.formulas import Formulas
from shardproof.proofs.proving import Counterexample, Proof, prove

__all__ = ["CLAIMS", "Claim", "Counterexample", "Formulas", "Proof", "prove"]
