"""Amounts as people write them: what they mean, and what is refused."""

from __future__ import annotations

import pytest

from placement.model import (
    InvalidAmount,
    format_bytes,
    format_milli,
    parse_bytes,
    parse_compute,
    parse_seconds,
)

GOOD_BYTES = [
    ("1048576", 1 << 20),
    ("4194304000", 4_194_304_000),
    ("10b", 10),
    ("10B", 10),
    ("1k", 1000),
    ("1KB", 1000),
    ("2M", 2_000_000),
    ("1.5G", 1_500_000_000),
    ("3T", 3_000_000_000_000),
    ("1Ki", 1024),
    ("512Mi", 512 << 20),
    ("10Gi", 10 << 30),
    ("10GiB", 10 << 30),
    ("10 gib", 10 << 30),
    ("  10Gi  ", 10 << 30),
    ("0.5Ki", 512),
    ("2Ti", 2 << 40),
    ("1000000000000000", 10**15),
    ("1024Ti", 1 << 50),
]
GOOD_COMPUTE = [
    ("30%", 300),
    ("12.5%", 125),
    ("100%", 1000),
    ("0.1%", 1),
    ("300m", 300),
    ("1m", 1),
    ("1000M", 1000),
    ("0.3", 300),
    ("1", 1000),
    ("1.0", 1000),
    ("0.001", 1),
    (" 25 % ", 250),
    ("auto", None),
    (" AUTO ", None),
]
GOOD_SECONDS = [
    ("90", 90.0),
    ("90s", 90.0),
    ("0.5", 0.5),
    ("15m", 900.0),
    ("2h", 7200.0),
    ("1.5H", 5400.0),
    ("1d", 86400.0),
    (" 1 d ", 86400.0),
]
NEVER_AN_AMOUNT = [
    "",
    " ",
    "ten",
    "NaN",
    "nan",
    "inf",
    "-inf",
    "Infinity",
    "-1",
    "-0.5",
    "+1",
    "1e3",
    "1_000",
    "1,5",
    "1.",
    ".5",
    "1.2.3",
    "0x10",
    "1 2",
    "--",
    "%",
    "\u0661\u0660",  # Arabic-Indic 10
    "\uff11\uff10",  # fullwidth 10
    "\u00bd",
    "9" * 400,
    "0",
    "0.0",
]
UNITS = {
    parse_bytes: ["10Pi", "10Ei", "10x", "10i", "10ib", "10bb", "10%", "10GiBi", "10m i"],
    parse_compute: ["30%%", "30k", "30Gi", "0.3gpu", "30s", "automatic", "30 percent"],
    parse_seconds: ["5ms", "5w", "5min", "5%", "5Gi", "5 hours"],
}
OUT_OF_RANGE = {
    parse_bytes: ["0.4", "0Gi", "1125899906842625", "1025Ti", "8388608Ti", "1000000000000000000T"],
    parse_compute: ["130%", "101%", "100.04%", "1.01", "1001m", "2", "0%", "0m", "0.0004", "0.04%", "0.4m"],
    parse_seconds: ["0s", "0.0h", "1000000000000000512"],
}


@pytest.mark.parametrize(("text", "amount"), GOOD_BYTES)
def test_bytes(text, amount):
    assert parse_bytes(text) == amount
    assert type(parse_bytes(text)) is int


@pytest.mark.parametrize(("text", "milli"), GOOD_COMPUTE)
def test_compute(text, milli):
    assert parse_compute(text) == milli


@pytest.mark.parametrize(("text", "seconds"), GOOD_SECONDS)
def test_seconds(text, seconds):
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("parse", [parse_bytes, parse_compute, parse_seconds])
@pytest.mark.parametrize("text", NEVER_AN_AMOUNT)
def test_what_is_no_amount_at_all(parse, text):
    with pytest.raises(InvalidAmount, match="limit: "):
        parse(text, "limit")


@pytest.mark.parametrize(
    ("parse", "text"),
    [(parse, text) for table in (UNITS, OUT_OF_RANGE) for parse in table for text in table[parse]],
)
def test_wrong_units_and_amounts_out_of_range(parse, text):
    with pytest.raises(InvalidAmount, match="limit: "):
        parse(text, "limit")


@pytest.mark.parametrize(
    ("parse", "text", "hint"),
    [
        (parse_bytes, "10Pi", "use Ki, Mi, Gi, Ti"),
        (parse_bytes, "0", "above 0"),
        (parse_bytes, "10", "write its unit, for example 10Gi"),
        (parse_bytes, "1048575", "write its unit"),
        (parse_bytes, "ten", "'ten' is not an amount"),
        (parse_bytes, "9" * 400, "too large"),
        (parse_compute, "130%", "at most 100%"),
        (parse_compute, "30k", "write 30%, 300m, 0.3 or auto"),
        (parse_seconds, "5w", "use s, m, h or d"),
        (parse_seconds, "0", "above 0"),
    ],
)
def test_a_refusal_says_what_to_do_in_one_line(parse, text, hint):
    with pytest.raises(InvalidAmount) as caught:
        parse(text)
    assert hint in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (1024, "1Ki"),
        (1536, "1.5Ki"),
        (512 << 20, "512Mi"),
        (10 << 30, "10Gi"),
        (3 << 29, "1.5Gi"),
        (1023 << 30, "1023Gi"),
        (2 << 40, "2Ti"),
    ],
)
def test_bytes_are_written_as_people_do_and_read_back(amount, text):
    assert format_bytes(amount) == text
    assert parse_bytes(text) == amount


@pytest.mark.parametrize(("milli", "text"), [(1, "0.1%"), (125, "12.5%"), (300, "30%"), (1000, "100%")])
def test_compute_is_written_as_people_do_and_read_back(milli, text):
    assert format_milli(milli) == text
    assert parse_compute(text) == milli
