"""Quantities are read as Kubernetes reads them."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quintet.apis.quantity import amount


@pytest.mark.parametrize(
    ("quantity", "want"),
    [
        ("1", 1),
        (1, 1),
        (0.5, Decimal("0.5")),
        ("0.5", Decimal("0.5")),
        (".5", Decimal("0.5")),
        ("5.", 5),
        ("500m", Decimal("0.5")),
        ("1k", 1000),
        ("1Ki", 1024),
        ("1.5Gi", 1610612736),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("-2M", -2_000_000),
        ("100n", Decimal("0.0000001")),
    ],
)
def test_quantity_is_parsed_as_number(quantity, want):
    assert amount(quantity) == want


@pytest.mark.parametrize(
    "nonsense", ["", "Gi", "1gi", "1 Gi", "1Kib", "1e", "--1", "1.2.3", "²", None, True, [], {}]
)
def test_invalid_quantity_returns_none(nonsense):
    assert amount(nonsense) is None


@given(st.integers(min_value=0, max_value=10**15))
def test_equal_amounts_in_different_units_are_equal(number):
    assert amount(f"{number}Gi") == amount(f"{number * 1024}Mi") == amount(number * 2**30)
