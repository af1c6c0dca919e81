"""The fault models: what each gets wrong, which laws should say so, and the smallest input known to show it."""
# ruff: noqa: E501  # a table is read in rows

from __future__ import annotations

from dataclasses import dataclass
from math import prod

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class FaultModel:
    """An implementation with one known mistake.

    `row` is a row of the list of known faults, "lesson" one of its lessons. `laws` are slugs, any of which catches it.
    `shapes` over `world_size` ranks is the row's smallest input, or a smaller one that shows this variant.
    """

    slug: str
    row: str
    sentence: str
    target: str
    laws: tuple[str, ...]
    shapes: Shapes
    world_size: int

    @property
    def numel(self) -> int:
        """Elements of all parameters of the smallest input."""
        return sum(prod(shape) for shape in self.shapes)


def _fault(slug: str, row: str, target: str, laws: str, shapes: Shapes, world_size: int, sentence: str) -> FaultModel:
    return FaultModel(slug, row, sentence, f"{__package__}.{target}", tuple(laws.split()), shapes, world_size)


# slug, row, target, laws of which any catches it, smallest shapes, world size, what is wrong.
FAULTS: tuple[FaultModel, ...] = (
    _fault("negative-owned", "L1", "layout:NegativeOwned", "accepted-everywhere empty-shard-legal owned-exactly-once bounded-time padded-uneven-accepted", ((1,),), 3, "a start past the end is not clamped"),
    _fault("secondary-unclamped", "L1", "grouping:SecondaryUnclamped", "accepted-everywhere empty-shard-legal bounded-time padded-uneven-accepted", ((1,),), 4, "a secondary shard that starts past the end is not clamped"),
    _fault("bucket-end-not-carried", "L2", "bucketing:EndNotCarried", "buckets-tile", ((1,), (1,)), 2, "the next bucket starts before the padding of the last one"),
    _fault("bucket-hole", "L2", "bucketing:HoleBetween", "buckets-tile", ((1,), (1,)), 1, "the next bucket starts behind a gap that is in none"),
    _fault("bucket-boundary-fixed", "L3", "bucketing:FixedBoundary", "buckets-divisible", ((1,),), 3, "a bucket ends at a multiple that the world size does not divide"),
    _fault("buffer-padded-not-buckets", "L4", "bucketing:BufferPadded", "buckets-divisible", ((1,), (1,)), 2, "the whole buffer is padded, its buckets are not"),
    _fault("float-ceil", "L5", "layout:FloatCeil", "padding-minimal owned-exactly-once", ((2**53 + 1,),), 1, "the ceiling goes through a float"),
    _fault("floor-shards", "L6", "layout:FloorShards", "owned-exactly-once round-trip accepted-everywhere", ((1,),), 2, "shards are N // W long"),
    _fault("floor-gradients", "L6", "layout:FloorGradients", "reduced-exactly-once", ((1,),), 2, "gradients are cut by N // W"),
    _fault("empty-is-error", "L7", "layout:EmptyRefused", "accepted-everywhere padded-uneven-accepted", ((1,),), 2, "a padding-only rank makes every rank refuse"),
    _fault("empty-raises-alone", "L7", "layout:EmptyRaisesAlone", "bounded-time accepted-everywhere", ((1,),), 2, "a padding-only rank refuses alone"),
    _fault("empty-shard-elsewhere", "L7", "layout:EmptyShardElsewhere", "accepted-everywhere padded-uneven-accepted", ((1,),), 2, "a rank past the end stores nothing instead of padding"),
    _fault("world-size-twice", "L8", "layout:WorldSizeTwice", "logical-size-carried", ((1,),), 2, "a global dimension is multiplied by the world size again"),
    _fault("size-inferred", "L8", "layout:SizeInferred", "shape-restored artefact-has-logical-shape", ((1,),), 2, "the logical size is inferred from the shards"),
    _fault("compares-owned", "R1", "registration:ComparesOwned", "padded-uneven-accepted", ((1,),), 2, "unpadded shard sizes are compared"),
    _fault("size-from-gradient", "R2", "registration:SizeFromGradient", "size-from-shape", ((3,),), 2, "the size comes from a partition-sized gradient buffer"),
    _fault("viewed-as-gradient", "R2", "registration:ViewedAsGradient", "size-from-shape shape-restored", ((2,),), 2, "the same, unchecked: a gather has the buffer's shape"),
    _fault("shard-not-looked-at", "R3", "registration:ShardNotLookedAt", "uniform-manifest equal-counts-and-dtypes", ((1,),), 2, "shard lengths are computed, not looked at"),
    _fault("shard-length-from-own", "R3", "registration:ShardLengthFromOwn", "uniform-manifest", ((1,),), 2, "a shard length that is wrong everywhere passes"),
    _fault("dtype-not-compared", "R3", "registration:DtypeNotCompared", "uniform-manifest", ((1,),), 2, "dtypes are not compared"),
    _fault("compares-shard-length", "R4", "registration:ComparesShardLength", "uniform-manifest", ((7,),), 2, "only shard lengths are compared"),
    _fault("compares-numel", "R4", "registration:ComparesNumel", "uniform-manifest", ((2, 3),), 2, "only element counts are compared"),
    _fault("order-ignored", "R5", "registration:OrderIgnored", "uniform-manifest", ((1,), (1,)), 2, "the order of registration is not compared"),
    _fault("ids-ignored", "R5", "registration:IdsIgnored", "uniform-manifest", ((1,), (1,)), 2, "ids are not compared"),
    _fault("extra-ignored", "R5", "registration:ExtraIgnored", "uniform-manifest", ((1,), (1,)), 2, "parameters that not every rank has are passed over"),
    _fault("one-collective-each", "R6", "registration:OneCollectiveEach", "bounded-time uniform-manifest", ((1,), (1,)), 2, "one collective a parameter, without counts"),
    _fault("raises-alone", "R7", "registration:RaisesAlone", "bounded-time refused-everywhere", ((1,),), 2, "an unreadable parameter is raised before the exchange"),
    _fault("checks-alone", "R7", "registration:ChecksAlone", "bounded-time refused-everywhere", ((1,),), 2, "one's own shard length is checked before the exchange"),
    _fault("refused-by-first", "R7", "registration:RefusedByFirst", "refused-everywhere uniform-manifest", ((1,),), 2, "only rank 0 refuses"),
    _fault("frozen-has-no-entry", "R8", "registration:FrozenHasNoEntry", "accepted-everywhere size-from-shape", ((1,),), 1, "a frozen parameter is not in the table of gradients"),
    _fault("gradient-expected", "R8", "registration:GradientExpected", "size-from-shape accepted-everywhere", ((1,),), 1, "a missing gradient buffer is an error"),
    _fault("logged-not-raised", "R9", "registration:LoggedNotRaised", "uniform-manifest", ((1,),), 2, "the refusal is logged"),
    _fault("buffer-of-n", "G1", "gathering:BufferOfN", "accepted-everywhere buffer-matches-layout round-trip", ((5,),), 2, "the buffer holds N elements"),
    _fault("tail-pushed-back", "G1", "gathering:TailPushedBack", "round-trip buffer-matches-layout", ((5,),), 2, "the last shard is pushed back into N elements"),
    _fault("fused-stride", "G2", "gathering:FusedStride", "round-trip padding-unobservable", ((5,), (7,)), 2, "a shared buffer is read with a stride of N"),
    _fault("memory-order", "G3", "gathering:MemoryOrder", "round-trip", ((2,),), 2, "flattening takes memory order"),
    _fault("strided-shard", "G3", "gathering:StridedShard", "round-trip", ((2,),), 1, "a strided shard is sent as raw memory"),
    _fault("strided-send", "G3", "gathering:StridedSend", "send-contiguous accepted-everywhere", ((2,),), 1, "a strided shard is sent as it is"),
    _fault("stale-by-count", "G4", "gathering:StaleByCount", "round-trip buffer-matches-layout dtype-kept", ((1,), (1,)), 1, "a buffer of another dtype is used again"),
    _fault("stale-dtype-kept", "G4", "gathering:StaleDtypeKept", "dtype-kept", ((1,), (1,)), 1, "a buffer of another dtype is used again and handed out"),
    _fault("insert-if-absent", "G5", "gathering:InsertIfAbsent", "round-trip secondary-equals-primary buffer-matches-layout", ((1,),), 1, "the new buffer is dropped, the stale one valid"),
    _fault("valid-at-launch", "G6", "gathering:ValidAtLaunch", "round-trip valid-means-complete", ((1,),), 2, "a prefetched parameter is valid from its launch"),
    _fault("available-at-launch", "G6", "gathering:AvailableAtLaunch", "valid-means-complete", ((1,),), 2, "a prefetched parameter is said to be available at once"),
    _fault("waits-for-nothing", "G6", "gathering:WaitsForNothing", "round-trip", ((1,),), 2, "wait returns at once"),
    _fault("gather-returns-early", "G6", "gathering:GatherReturnsEarly", "round-trip", ((1,),), 2, "a plain gather returns before its collective"),
    _fault("last-handle-only", "G7", "gathering:LastHandleOnly", "round-trip", ((1,), (1,)), 1, "only the last of several handles is awaited"),
    _fault("first-handle-only", "G7", "gathering:FirstHandleOnly", "round-trip", ((1,), (1,)), 1, "only the first of several handles is awaited"),
    _fault("view-kept", "G8", "gathering:ViewKept", "freed-after-last-release", ((1,),), 1, "a kept view keeps the buffer"),
    _fault("slot-reset", "G10", "gathering:SlotReset", "round-trip no-write-in-flight", ((1,), (1,)), 1, "a staging buffer's index starts over while it is in use"),
    _fault("slot-not-emptied", "G10", "gathering:SlotNotEmptied", "round-trip no-write-in-flight", ((1,), (1,), (1,)), 1, "three gathers share two staging buffers"),
    _fault("secondary-stale", "G11", "gathering:SecondaryStale", "round-trip secondary-equals-primary", ((1,),), 1, "a second copy is not refreshed by an update"),
    _fault("secondary-stale-after-load", "G11", "gathering:SecondaryStaleAfterLoad", "round-trip secondary-equals-primary reshard-identity", ((1,),), 1, "a second copy is not refreshed by a load"),
    _fault("update-keeps-valid", "G11", "gathering:UpdateKeepsValid", "round-trip secondary-equals-primary", ((1,),), 1, "a gathered buffer stays valid over an update"),
    _fault("secondary-not-refreshed", "G11", "grouping:SecondaryNotRefreshed", "round-trip secondary-equals-primary", ((1,),), 2, "an update reaches the first of several groups only"),
    _fault("zero-divides", "G12", "gathering:ZeroDivides", "round-trip shape-restored", ((1, 0),), 1, "a zero row length is divided by"),
    _fault("zero-crashes", "G12", "gathering:ZeroCrashes", "bounded-time accepted-everywhere", ((0,),), 1, "a count of zero kills the rank"),
    _fault("empty-shape-lost", "G12", "gathering:EmptyShapeLost", "shape-restored", ((1, 0),), 1, "an empty parameter loses its shape"),
    _fault("scalar-shape-lost", "G12", "gathering:ScalarShapeLost", "shape-restored", ((),), 1, "a scalar gains a dimension"),
    _fault("rotated-shard", "G13", "gathering:RotatedShard", "round-trip", ((2,),), 1, "every shard is shifted by one element"),
    _fault("ranks-permuted", "G13", "gathering:RanksPermuted", "round-trip", ((1,),), 2, "shards arrive in each other's places"),
    _fault("even-count", "G14", "gathering:EvenCount", "round-trip", ((1,),), 1, "an odd count is rounded down"),
    _fault("aligned-send", "G14", "gathering:AlignedSend", "round-trip", ((1,),), 1, "an odd send offset is rounded down"),
    _fault("offset-32", "G15", "layout:Offset32", "owned-exactly-once order-kept boundaries-divisible", ((2**33,),), 2, "offsets wrap at 2^32"),
    _fault("count-32", "G15", "layout:Count32", "padding-minimal boundaries-divisible owned-exactly-once", ((2**32,),), 2, "counts wrap at 2^31"),
    _fault("two-formulas", "G16", "gathering:TwoFormulas", "round-trip equal-counts-and-dtypes buffer-matches-layout", ((2,),), 2, "a plain gather ignores the alignment"),
    _fault("packed-by-numel", "N1", "reduction:PackedByNumel", "padding-zero-after-reduce", ((7,), (4,)), 2, "a padding slot receives the next gradient"),
    _fault("packed-and-cut-apart", "N1", "reduction:PackedAndCutApart", "reduced-exactly-once padding-zero-after-reduce", ((7,), (4,)), 2, "gradients are packed N apart, cut W * p apart"),
    _fault("padding-left", "N1", "reduction:PaddingLeft", "padding-zero-after-reduce padding-unobservable", ((1,),), 2, "padding is sent as it was"),
    _fault("padding-in-norm", "N2", "reduction:PaddingInNorm", "norm-matches-unsharded padding-unobservable", ((1,),), 2, "padding takes part in the norm"),
    _fault("norm-by-max", "N3", "reduction:NormByMax", "empty-is-neutral bounded-time accepted-everywhere norm-matches-unsharded", ((1,),), 2, "an empty shard has no largest element"),
    _fault("norm-by-mean", "N3", "reduction:NormByMean", "empty-is-neutral norm-matches-unsharded", ((1,),), 2, "an empty shard's mean is NaN"),
    _fault("tied-twice", "N4", "reduction:TiedTwice", "reduced-exactly-once", ((1,), (1,)), 2, "a tied parameter is reduced once a name"),
    _fault("oversize-lost", "N5", "reduction:OversizeLost", "reduced-exactly-once", ((65,),), 1, "what exceeds the bucket is lost"),
    _fault("oversize-local", "N5", "reduction:OversizeLocal", "reduced-exactly-once", ((9,),), 2, "a gradient that exceeds the bucket is not reduced"),
    _fault("count-not-reset", "N6", "reduction:CountNotReset", "counters-reset", ((1,),), 1, "the bucket's count survives a reduction"),
    _fault("fill-not-reset", "N6", "reduction:FillNotReset", "reduced-exactly-once accepted-everywhere", ((1,),), 1, "an emptied bucket is filled on from where it ended"),
    _fault("gradients-add-up", "N6", "reduction:GradientsAddUp", "reduced-exactly-once accumulation-adds", ((1,),), 1, "the last reduction's gradients are still pending"),
    _fault("result-in-parameter-dtype", "N7", "reduction:ResultInParameterDtype", "dtype-kept", ((1,),), 1, "a reduced gradient has the parameter's dtype"),
    _fault("result-in-comm-dtype", "N7", "reduction:ResultInCommDtype", "dtype-kept", ((1,),), 1, "a reduced gradient has the communication dtype"),
    _fault("first-micro-step-only", "N8", "reduction:FirstMicroStepOnly", "accumulation-adds", ((1,),), 1, "only the first micro-step counts"),
    _fault("last-micro-step-only", "N8", "reduction:LastMicroStepOnly", "accumulation-adds", ((1,),), 1, "only the last micro-step counts"),
    _fault("middle-micro-step-lost", "N8", "reduction:MiddleMicroStepLost", "accumulation-adds", ((1,),), 1, "a second accumulation replaces the first"),
    _fault("reduced-in-place", "N9", "reduction:ReducedInPlace", "input-not-mutated", ((2,),), 2, "the caller's gradient is reduced in place where nothing is padded"),
    _fault("accumulated-in-place", "N9", "reduction:AccumulatedInPlace", "input-not-mutated", ((1,),), 1, "the caller's gradient is added to"),
    _fault("sum-for-mean", "lesson", "reduction:SumForMean", "sum-against-mean", ((1,),), 2, "a mean is not divided"),
    _fault("mean-for-sum", "lesson", "reduction:MeanForSum", "sum-against-mean", ((1,),), 2, "a sum is divided"),
    _fault("own-rank-only", "lesson", "reduction:OwnRankOnly", "reduced-exactly-once", ((1,),), 2, "gradients are not added up over ranks"),
    _fault("padding-kept", "C1", "state:PaddingKept", "artefact-has-logical-shape", ((1,),), 2, "an export keeps the padding"),
    _fault("stripped-by-rule", "C1", "state:StrippedByRule", "artefact-has-logical-shape", ((1,),), 2, "an export is stripped of padding twice"),
    _fault("trailing-zeros-stripped", "C1", "state:TrailingZerosStripped", "artefact-has-logical-shape accepted-everywhere", ((1,),), 1, "trailing zeros are taken for padding"),
    _fault("last-shard-takes-all", "C2", "state:LastShardTakesAll", "artefact-has-logical-shape reshard-identity", ((1,),), 3, "all padding is cut from the last shard"),
    _fault("last-of-group-takes-all", "C2", "grouping:LastOfGroupTakesAll", "artefact-has-logical-shape reshard-identity", ((1,),), 4, "all padding is cut from a group's last shard"),
    _fault("world-rank-for-group-rank", "C3", "grouping:WorldRankForGroupRank", "reshard-identity round-trip", ((1,),), 2, "on load, the world's rank is taken for the group's"),
    _fault("new-ranks-missing", "C3", "state:NewRanksMissing", "reshard-identity", ((2,),), 1, "new ranks keep what they had"),
    _fault("new-ranks-raise", "C3", "state:NewRanksRaise", "reshard-identity bounded-time", ((1,),), 1, "new ranks have no file"),
    _fault("old-shard-length", "C3", "state:OldShardLength", "reshard-identity", ((2,),), 1, "shards are cut by the old length"),
    _fault("scalar-sliced", "C4", "state:ScalarSliced", "reshard-identity round-trip", ((),), 1, "a 0-dim tensor is treated as a shard"),
    _fault("scalar-saved-as-vector", "C4", "state:ScalarSavedAsVector", "artefact-has-logical-shape", ((),), 1, "a 0-dim tensor is saved with a dimension"),
    _fault("step-count-sliced", "C4", "state:StepCountSliced", "scalars-untouched", ((1,),), 2, "the step count is kept by rank 0 only"),
    _fault("padded-index", "C5", "state:PaddedIndex", "artefact-has-logical-shape reshard-identity", ((1,), (1,)), 2, "offsets count padding that the file has not"),
    _fault("compact-offsets", "C5", "bucketing:CompactOffsets", "reshard-identity round-trip", ((1,), (1,)), 2, "behind a padded bucket, a file is read at compact offsets"),
    _fault("other-key", "C7", "state:OtherKey", "profile-complete", ((1,),), 1, "profile records have another key"),
    _fault("last-shard-not-stepped", "lesson", "training:LastShardNotStepped", "training-parity", ((2,),), 2, "a step leaves out the last rank's shard"),
    _fault("clips-by-local-norm", "lesson", "training:ClipsByLocalNorm", "training-parity norm-matches-unsharded", ((2,),), 2, "the norm of one rank's shards decides on clipping"),
    _fault("step-forgets-clip", "lesson", "training:StepForgetsClip", "training-parity norm-matches-unsharded", ((1,),), 1, "a step takes the gradients as they were before clipping"),
    _fault("gradients-averaged", "lesson", "training:GradientsAveraged", "training-parity", ((1,),), 2, "a backward averages over ranks"),
    _fault("loss-of-one-rank", "lesson", "training:LossOfOneRank", "training-parity", ((1,),), 2, "the loss is not added up over ranks"),
    _fault("no-gradient-without-shard", "lesson", "training:NoGradientWithoutShard", "training-parity", ((1,),), 2, "a rank of padding only takes no part in a gradient"),
    _fault("accumulated-dropped", "N8", "training:AccumulatedDropped", "training-parity norm-matches-unsharded", ((1,),), 1, "a backward drops what was accumulated"),
    _fault("tied-stepped-twice", "N4", "training:TiedSteppedTwice", "training-parity", ((1,), (1,)), 1, "a tied parameter is stepped once a name"),
    _fault("step-keeps-valid", "G11", "training:StepKeepsValid", "training-parity secondary-equals-primary", ((1,),), 1, "what was gathered stays valid over a step"),
    _fault("forward-on-first-weights", "G11", "training:ForwardOnFirstWeights", "training-parity", ((1,),), 1, "a forward runs on the weights of the first one"),
    _fault("master-not-loaded", "lesson", "training:MasterNotLoaded", "training-parity", ((1,),), 1, "a load leaves the copy alone that a step changes"),
    _fault("padding-rank-starts-over", "C4", "training:PaddingRankStartsOver", "scalars-untouched", ((1,),), 2, "a rank of padding only loads no optimizer state"),
    _fault("padded-rows", "C6", "state:PaddedRows", "artefact-has-logical-shape", ((1, 1),), 2, "rows are saved padded"),
)  # fmt: skip

# Implementations with more machinery than the base and no mistake; several faults are planted in them.
CORRECT: tuple[str, ...] = (
    "shardproof.fault_models.base:Correct",
    "shardproof.fault_models.gathering:Pooled",
    "shardproof.fault_models.gathering:Staged",
    "shardproof.fault_models.gathering:PingPong",
    "shardproof.fault_models.gathering:Fused",
    "shardproof.fault_models.reduction:Bucketed",
    "shardproof.fault_models.state:OneFlatFile",
    "shardproof.fault_models.cutting:Buckets",
    "shardproof.fault_models.bucketing:ThroughBuffer",
    "shardproof.fault_models.cutting:Ragged",
    "shardproof.fault_models.cutting:Grouped",
    "shardproof.fault_models.cutting:GroupedChunk",
    "shardproof.fault_models.cutting:TwoDimensional",
    "shardproof.fault_models.training:Trained",
)

# Rows without a model here, and why.
NOT_MODELLED: dict[str, str] = {
    "G9": "needs CUDA streams; four such mistakes are planted and seen in tests/gpu/test_streams.py",
}
