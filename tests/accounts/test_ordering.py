"""Computed rows in the order asked for."""

from types import SimpleNamespace

from apps.accounts.ordering import ordered


class CountedRow(dict):
    looked = 0

    def __getitem__(self, key):
        CountedRow.looked += 1
        return super().__getitem__(key)


def order(text, rows):
    return [
        row["key"] for row in ordered(SimpleNamespace(query_params={"ordering": text}), rows, ["key", "at"])
    ]


def test_a_field_that_is_named_a_thousand_times_is_sorted_by_once():
    rows = [CountedRow(key=key, at=at) for key, at in (("b", 1), ("a", 2), ("c", None))]
    CountedRow.looked = 0
    assert order("-at,key" + ",-at" * 1000, rows) == ["a", "b", "c"]
    assert CountedRow.looked < 50


def test_the_first_field_weighs_most_and_what_is_not_known_comes_last():
    rows = [{"key": key, "at": at} for key, at in (("b", 1), ("c", 1), ("a", None))]
    assert order("at,-key", rows) == ["c", "b", "a"]
    assert order("-key", rows) == ["c", "b", "a"]
    assert order("", rows) == ["b", "c", "a"]
