"""Parameters as padded shards over torch.distributed: NCCL on CUDA, gloo on the CPU, the same code.

Every rank stores ceil(N / W) elements of a parameter, the last shards padded. A gather is one all-gather of equal
counts from the contiguous shard into a padded buffer, returned as a view of the true shape.
"""

from gpu_impl.arithmetic import layout, shard
from gpu_impl.buffers import POOL_BYTES
from gpu_impl.checkpoint import read
from gpu_impl.errors import CheckpointError, CollectiveError, RefusedError, RegistrationError, UnknownParameterError
from gpu_impl.gathering import Handle
from gpu_impl.parameters import Spec
from gpu_impl.profile import Record
from gpu_impl.session import Session

promises = (
    "result-is-view",
    "view-outlives-release",
    "buffer-reused",
    "one-collective",
    "no-extra-copy",
    "no-steady-state-allocation",
    "no-host-sync",
)
layouts = ("flat_padded",)
# Any positive alignment works; these are worth drawing.
alignments = (1, 2, 3, 4, 8, 16, 64, 128)

__all__ = [
    "POOL_BYTES",
    "CheckpointError",
    "CollectiveError",
    "Handle",
    "Record",
    "RefusedError",
    "RegistrationError",
    "Session",
    "Spec",
    "UnknownParameterError",
    "alignments",
    "layout",
    "layouts",
    "promises",
    "read",
    "shard",
]
