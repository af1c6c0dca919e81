"""All laws, in the order in which they are told."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from invariants.collectives import equal_counts_and_dtypes, same_sequence_on_every_rank, send_contiguous
from invariants.gather import (
    dtype_kept,
    earlier_result_intact,
    guard_intact,
    input_not_mutated,
    padding_unobservable,
    round_trip,
    shape_restored,
)
from invariants.law import Law
from invariants.layout import (
    boundaries_divisible,
    buckets_divisible,
    buckets_tile,
    empty_shard_legal,
    logical_size_carried,
    order_kept,
    owned_exactly_once,
    padding_minimal,
)
from invariants.life import (
    buffer_matches_layout,
    freed_after_last_release,
    no_write_in_flight,
    secondary_equals_primary,
    valid_means_complete,
)
from invariants.promises import (
    buffer_reused,
    no_extra_copy,
    no_host_sync,
    no_steady_state_allocation,
    one_collective,
    result_is_view,
    view_outlives_release,
)
from invariants.reduction import (
    accumulation_adds,
    empty_is_neutral,
    norm_matches_unsharded,
    padding_zero_after_reduce,
    reduced_exactly_once,
    sum_against_mean,
)
from invariants.registration import (
    accepted_everywhere,
    bounded_time,
    padded_uneven_accepted,
    refused_everywhere,
    size_from_shape,
    uniform_manifest,
)
from invariants.state import (
    artefact_has_logical_shape,
    counters_reset,
    profile_complete,
    reshard_identity,
    scalars_untouched,
    training_parity,
)

LAWS: tuple[Law[Any], ...] = (
    padding_minimal.LAW,
    owned_exactly_once.LAW,
    order_kept.LAW,
    boundaries_divisible.LAW,
    buckets_tile.LAW,
    buckets_divisible.LAW,
    empty_shard_legal.LAW,
    logical_size_carried.LAW,
    uniform_manifest.LAW,
    padded_uneven_accepted.LAW,
    size_from_shape.LAW,
    refused_everywhere.LAW,
    accepted_everywhere.LAW,
    bounded_time.LAW,
    round_trip.LAW,
    shape_restored.LAW,
    dtype_kept.LAW,
    padding_unobservable.LAW,
    guard_intact.LAW,
    input_not_mutated.LAW,
    earlier_result_intact.LAW,
    buffer_matches_layout.LAW,
    valid_means_complete.LAW,
    freed_after_last_release.LAW,
    no_write_in_flight.LAW,
    secondary_equals_primary.LAW,
    same_sequence_on_every_rank.LAW,
    equal_counts_and_dtypes.LAW,
    send_contiguous.LAW,
    padding_zero_after_reduce.LAW,
    reduced_exactly_once.LAW,
    sum_against_mean.LAW,
    accumulation_adds.LAW,
    norm_matches_unsharded.LAW,
    empty_is_neutral.LAW,
    reshard_identity.LAW,
    artefact_has_logical_shape.LAW,
    scalars_untouched.LAW,
    counters_reset.LAW,
    profile_complete.LAW,
    training_parity.LAW,
    result_is_view.LAW,
    view_outlives_release.LAW,
    buffer_reused.LAW,
    one_collective.LAW,
    no_extra_copy.LAW,
    no_steady_state_allocation.LAW,
    no_host_sync.LAW,
)

_BY_SLUG: Mapping[str, Law[Any]] = MappingProxyType({law.slug: law for law in LAWS})


class UnknownLaw(LookupError):  # noqa: N818  # it says what was asked for, as KeyError does
    """There is no law of that name; `nearest` are the names most like it."""

    def __init__(self, slug: str) -> None:
        """The message lists the nearest and all known."""
        self.slug = slug
        self.nearest = tuple(get_close_matches(slug, _BY_SLUG, n=3, cutoff=0.4))
        near = f"nearest: {', '.join(self.nearest)}; " if self.nearest else ""
        super().__init__(f"unknown law {slug!r}; {near}known: {', '.join(_BY_SLUG)}")


def find(slug: str) -> Law[Any]:
    """The law of that slug. Raises UnknownLaw, which lists the known and the nearest."""
    if slug not in _BY_SLUG:
        raise UnknownLaw(slug)
    return _BY_SLUG[slug]
