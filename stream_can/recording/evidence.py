"""Evidence: which columns are the probabilities, judged by many rows and their labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_can.messages.number_texts import number_of
from stream_can.method.classes import trailing_numbers
from stream_can.method.rows import TOLERANCE

INDEX = ("", "index", "Unnamed: 0", "id", "pred", "prediction", "predicted", "y_pred",
         "predicted_label", "predicted_class", "pred_label")  # fmt: skip
"""Names of numeric columns that are never probabilities."""
SEPARATORS = "_./:= -"
PLAIN = frozenset((int, float, type(None)))
ENOUGH = 0.9
"""Share of the rows that must be probabilities."""
MOST_TRIED = 300
"""Maximum number of label values by which columns are looked for."""


class ColumnGroup(NamedTuple):
    """Columns of one class each, and the names of the classes."""

    columns: list[str]
    names: list[str]
    sums: float
    """Share of the rows that sum to 1."""
    named: float
    """Share of the labels that name one of the classes."""


def in_order(names: Sequence[Any]) -> list[int]:
    """Places of names in order: by their trailing numbers where they differ in these alone, as
    p_0, p_10, p_2; otherwise as they are."""
    places = list(range(len(names)))
    numbers = trailing_numbers([str(name) for name in names])
    return places if numbers is None else sorted(places, key=numbers.__getitem__)


def near_total(sums: Any, total: float, n: int) -> Any:
    """Whether sums of n possibly rounded numbers are as wanted. All rows are checked later."""
    return abs(sums - total) <= total * max(TOLERANCE, 0.005 * n)


def up_to_last_word(name: str) -> str:
    """A column's name up to its last word."""
    return name[: 1 + max(name.rfind(separator) for separator in SEPARATORS)]


def around(columns: Sequence[str]) -> tuple[str, str]:
    """Common prefix and suffix of all names."""
    prefix = _common(columns)
    rest = [column.removeprefix(prefix)[::-1] for column in columns]
    return prefix, _common(rest)[::-1]


def as_labels(names: list[str], rows: Sequence[dict[str, Any]], label: str) -> list[str]:
    """Names without what is common to all before or behind, where the labels of rows are."""
    return spelled(names, [_text(row[label]) for row in rows if row.get(label) is not None])[0]


def spelled(names: Sequence[str], labels: Sequence[str]) -> tuple[list[str], float]:
    """Names of classes as the labels write them: as they are, or without what is common to all
    names before, behind, or both; and the share of the labels that they name.

    What is common may be a part of the names: of p_Married and p_Widowed it is p_ and d.
    """
    prefix_length, suffix_length = map(len, around(names))
    inner = [name[prefix_length : len(name) - suffix_length] for name in names]
    ways = [
        [*names],
        [name[prefix_length:] for name in names],
        inner,
        [name.lstrip(SEPARATORS) for name in inner],
        [name[: len(name) - suffix_length] for name in names],
    ]
    folded = [label.strip().casefold() for label in labels]
    shares = [
        (
            sum(map({name.casefold() for name in way}.__contains__, folded)) / max(len(labels), 1),
            way,
        )
        for way in ways
        if len({*way}) == len(names) and "" not in way
    ]
    share, way = max(shares, key=lambda pair: pair[0])  # of equals the first
    return way, share


def _common(texts: Sequence[str]) -> str:
    """Common prefix of all texts."""
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*texts, strict=False))
    return "".join(letters[0] for letters in same)


def best_group(
    rows: Sequence[dict[str, Any]], free: Sequence[str], label: str, total: float
) -> ColumnGroup | list[ColumnGroup] | None:
    """Find the columns whose numbers sum up to ``total``, in nearly all rows; those that are as
    good; None where there are none.

    Columns are tried together that share what stands before and behind the value of a label, or
    before their last word or number; and all that are nowhere above ``total``.

    Parameters
    ----------
    rows
        The first rows of a file.
    free
        Columns without another meaning.
    label
        The column of the labels.
    """
    numeric, X = _numbers(rows, [name for name in free if name not in INDEX])
    labels = [_text(row[label]).strip() for row in rows if row.get(label) is not None]
    small = [numeric[k] for k in np.flatnonzero(np.nanmax(X, axis=0) <= total).tolist()]
    places = {name: k for k, name in enumerate(numeric)}
    tried = dict[tuple[str, ...], ColumnGroup]()
    for columns in (*_patterns(numeric, dict.fromkeys(labels)), small):
        if len(columns) > 1 and (key := tuple(columns)) not in tried:
            tried[key] = _judged(columns, X[:, [places[name] for name in columns]], labels, total)
    good = [group for group in tried.values() if group.sums >= ENOUGH]
    if not good:
        return None
    most = max((group.named, len(group.columns)) for group in good)[0]
    best = [group for group in good if group.named == most]
    widest = max(best, key=lambda group: len(group.columns))
    rivals = [group for group in best if not {*group.columns} <= {*widest.columns}]
    return [widest, *rivals] if rivals else widest


def _numbers(
    rows: Sequence[dict[str, Any]], free: Iterable[str]
) -> tuple[list[str], NDArray[np.float64]]:
    """The columns that hold numbers alone, and these, NaN where one is missing."""
    columns, values = list[str](), list[list[float]]()
    for name in free:
        cells = [row.get(name) for row in rows]
        if not {*map(type, cells)} <= PLAIN:  # texts of numbers, perhaps in percent
            read = [None if cell is None else number_of(cell) for cell in cells]
            if any(x is None and cell is not None for x, cell in zip(read, cells, strict=True)):
                continue
            cells = read
        numbers = [np.nan if cell is None else float(cell) for cell in cells]
        if not np.isnan(numbers).all() and min(numbers) >= 0:
            columns.append(name)
            values.append(numbers)
    return columns, np.array(values, np.float64).reshape(len(columns), len(rows)).T


def _patterns(columns: list[str], labels: Iterable[str]) -> Iterable[list[str]]:
    """Columns that may belong together by their names."""
    affixes = dict[tuple[str, str], None]()
    for value in [*labels][:MOST_TRIED]:
        for name in columns:
            if value and value in name:
                prefix, _, suffix = name.partition(value)
                affixes[prefix, suffix] = None
    for prefix, suffix in affixes:
        if prefix or suffix:
            yield [
                name
                for name in columns
                if len(name) > len(prefix) + len(suffix)
                and name.startswith(prefix)
                and name.endswith(suffix)
            ]
    for name_of in (_stem, up_to_last_word):
        groups = dict[str, list[str]]()
        for name in columns:
            if head := name_of(name):
                groups.setdefault(head, []).append(name)
        yield from groups.values()
    known = {label.casefold() for label in labels}
    yield [name for name in columns if name.casefold() in known]


def _stem(name: str) -> str:
    """A name without its trailing number; empty where it has none."""
    bare = name.rstrip("0123456789")
    return bare if bare != name else ""


def _judged(
    columns: list[str], X: NDArray[np.float64], labels: Sequence[str], total: float
) -> ColumnGroup:
    known = ~np.isnan(X).any(axis=1)
    near = near_total(X.sum(axis=1), total, len(columns))
    sums = float((near & known).sum() / max(known.sum(), 1))
    names, named = spelled(columns, labels)
    return ColumnGroup(columns, names, sums, named)


def _text(label: Any) -> str:
    """A label as a column's name writes it."""
    whole = isinstance(label, float) and label.is_integer()
    return str(int(label) if whole else label)
