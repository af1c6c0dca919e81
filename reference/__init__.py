"""The CPU model: what sharding must do, said once over index maps. NumPy only; other rooms import from here."""

from reference.arithmetic import align_up, ceil_div, clamp, floor_div, min_
from reference.bucketed import Bucketed, InBucket, share_of
from reference.chunk import Chunk
from reference.dtypes import DTYPES, Dtype, decode, encode, exact_bound
from reference.flat_padded import FlatPadded, owned_of, padded_numel_of, run_of, shard_numel_of
from reference.grouped import Grouped
from reference.layout import Layout
from reference.maps import PADDING, index_map, locate, owners
from reference.operations import gather, norm_squared, partition, reduce_scatter, reshard
from reference.ragged import Ragged, whole_units
from reference.runs import Run, offset_at, position_at
from reference.two_dimensional import TwoDimensional

__all__ = [
    "DTYPES",
    "PADDING",
    "Bucketed",
    "Chunk",
    "Dtype",
    "FlatPadded",
    "Grouped",
    "InBucket",
    "Layout",
    "Ragged",
    "Run",
    "TwoDimensional",
    "align_up",
    "ceil_div",
    "clamp",
    "decode",
    "encode",
    "exact_bound",
    "floor_div",
    "gather",
    "index_map",
    "locate",
    "min_",
    "norm_squared",
    "offset_at",
    "owned_of",
    "owners",
    "padded_numel_of",
    "partition",
    "position_at",
    "reduce_scatter",
    "reshard",
    "run_of",
    "shard_numel_of",
    "share_of",
    "whole_units",
]
