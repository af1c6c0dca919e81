"""A broken law as an exception, laws by name, and the sentence a violation makes."""

from __future__ import annotations

import pickle

import pytest

from invariants import LAWS, LawBroken, UnknownLaw, Violation, broken, find

VIOLATIONS = (
    (Violation("round-trip", "1 wrong", "0 wrong"), "observed 1 wrong, expected 0 wrong"),
    (
        Violation("round-trip", "0x1", "0x2", rank=0, parameter="w", step=3, offset=4),
        "observed 0x1, expected 0x2 [rank 0, parameter w, step 3, element 4]",
    ),
)


@pytest.mark.parametrize(("violation", "sentence"), VIOLATIONS)
def test_a_violation_is_one_line(violation: Violation, sentence: str) -> None:
    assert str(violation) == sentence


def test_each_law_has_a_type_of_its_own_and_always_the_same() -> None:
    types = [broken(law) for law in LAWS]
    assert len(set(types)) == len(LAWS)
    assert types == [broken(law) for law in LAWS]
    assert all(issubclass(one, LawBroken) and one.law == law.slug for one, law in zip(types, LAWS, strict=True))
    assert broken(find("round-trip")).__name__ == "RoundTripBroken"


def test_it_says_the_law_and_every_violation() -> None:
    law = find("round-trip")
    error = broken(law)([violation for violation, _ in VIOLATIONS])
    head, *lines = str(error).splitlines()
    assert head == f"round-trip: {law.sentence}"
    assert lines == [f"  {sentence}" for _, sentence in VIOLATIONS]


def test_it_survives_pickling() -> None:
    error = broken(find("guard-intact"))([VIOLATIONS[0][0]])
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (str(again), again.violations) == (str(error), error.violations)


def test_one_law_is_not_caught_as_another() -> None:
    error = broken(find("round-trip"))([])
    assert isinstance(error, broken(find("round-trip")))
    assert not any(isinstance(error, broken(law)) for law in LAWS if law.slug != "round-trip")


def test_laws_are_found_by_slug() -> None:
    assert all(find(law.slug) is law for law in LAWS)


@pytest.mark.parametrize(
    ("asked", "nearest"),
    [("roundtrip", "round-trip"), ("round_trip", "round-trip"), ("one-colective", "one-collective")],
)
def test_an_unknown_law_lists_the_nearest_and_all(asked: str, nearest: str) -> None:
    with pytest.raises(UnknownLaw, match=f"unknown law '{asked}'") as caught:
        find(asked)
    assert caught.value.slug == asked
    assert caught.value.nearest[0] == nearest
    near = f"nearest: {', '.join(caught.value.nearest)}; "
    assert str(caught.value) == f"unknown law '{asked}'; {near}known: {', '.join(law.slug for law in LAWS)}"


def test_three_are_near_at_most_and_a_few_letters_are_enough() -> None:
    with pytest.raises(UnknownLaw) as caught:
        find("padding")
    assert caught.value.nearest == ("padding-minimal", "padding-unobservable", "padding-zero-after-reduce")
    with pytest.raises(UnknownLaw) as caught:
        find("sync")
    assert caught.value.nearest == ("no-host-sync",)


def test_a_name_like_no_other_still_lists_all() -> None:
    with pytest.raises(UnknownLaw) as caught:
        find("@@@")
    assert caught.value.nearest == ()
    assert str(caught.value) == f"unknown law '@@@'; known: {', '.join(law.slug for law in LAWS)}"
