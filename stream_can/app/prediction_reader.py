"""PredictionReader: parses records of predictions for learners and correctors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from stream_can.app.model_messages import Bad, Classes, ModelMessages, too_long
from stream_can.errors import UnknownClass
from stream_can.learner.kinds import Reason
from stream_can.learner.model_name import ONLY, Name
from stream_can.learner.recent import LONGEST_ID
from stream_can.messages.columns import Table, table
from stream_can.messages.messages import BadMessage, Messages, Prediction
from stream_can.messages.ordinary import OrdinaryBatch
from stream_can.messages.parsing import (
    UNOPENED,
    OpenedPredictions,
    RawMessage,
    far_below,
    needs_measure,
    rows_at,
)


class ReadPredictions(NamedTuple):
    """Predictions of models with the same classes."""

    places: Sequence[int]
    """Positions among the records."""
    messages: Messages
    runs: list[OrdinaryBatch | list[Prediction]]
    """The predictions, in order: ordinary ones, and others."""
    ids: list[bytes | None]
    rows: Any
    """Rows, shape (n, m); of sparse rows the checked rows."""
    names: list[Name] | None
    """Model and version of each; None without models."""
    segments: Sequence[str]
    """Names of the declared columns."""
    off: int
    """Number of rows divided by their sum."""
    empty: list[int]
    """Positions of records without a value."""

    @property
    def parsed(self) -> list[Prediction]:
        """The predictions that are not ordinary: all where columns are declared."""
        return [prediction for run in self.runs if isinstance(run, list) for prediction in run]

    @property
    def columns(self) -> Table | None:
        """Values of the declared columns."""
        names = self.segments
        return table(names, [prediction.segments for prediction in self.parsed]) if names else None

    @property
    def faults(self) -> list[tuple[int, str]]:
        """Positions of invalid column values, and what is wrong."""
        pairs = zip(self.places, self.parsed, strict=False)
        return [(i, prediction.fault) for i, prediction in pairs if prediction.fault is not None]

    def write(
        self,
        rows: Any,
        all_reasons: Sequence[Reason | None] | None = None,
        sets: Sequence[list[Any]] | None = None,
    ) -> list[bytes]:
        """Write the answers: corrected rows, with the reasons of label requests and with sets."""
        at, out = 0, list[bytes]()
        for run in self.runs:
            n = len(run if isinstance(run, list) else run.ids)
            part = slice(at, at + n)
            reasons, named = all_reasons and all_reasons[part], sets and sets[part]
            if isinstance(run, list):
                for prediction, reason in zip(run, reasons or (), strict=False):
                    prediction.ask_reason = reason
                for prediction, names in zip(run, named or (), strict=False):
                    prediction.set = names
                out += self.messages.write_all(run, rows[part])
            else:
                out += run.write(rows[part], reasons, named)
            at += n
        return out


class PredictionReader:
    """Parses records of predictions.

    Parameters
    ----------
    messages
        The messages of the models.
    max_bytes
        Maximum output size; a prediction whose output could exceed it is unreadable.
    needs_id
        Whether a prediction whose label can name none is unreadable.
    """

    def __init__(
        self, messages: ModelMessages, max_bytes: int | None = None, *, needs_id: bool = False
    ) -> None:
        self._messages, self._max_bytes, self._needs_id = messages, max_bytes, needs_id

    def parse(self, records: Sequence[RawMessage]) -> tuple[list[ReadPredictions], Bad]:
        """Read predictions, grouped by classes, with those of new models last; also return the
        unreadable records."""
        if self._messages.naming is None:
            predictions, bad = self._parse_group(
                self._messages.first, range(len(records)), records, None, None
            )
            return [predictions], bad
        names, known = list[Name](), self._messages.models.classes()
        new: dict[Name, Classes] = {}
        alike: dict[tuple[bool, Classes], tuple[list[int], list[Any]]] = {}
        bad, empty = Bad(), list[int]()
        for i, record in enumerate(records):
            names.append(ONLY)
            if record.value is None and record.key is not None:
                empty.append(i)
                continue
            try:
                message = self._messages.first.open(record.value or b"", record.headers)
                name = self._name(message, record)
                classes = known.get(name) or new.get(name)
                if classes is None:
                    new[name] = classes = self._messages.models.begin(
                        name, self._messages.first.names_in(message)
                    )
            except (BadMessage, UnknownClass) as error:
                bad.append((i, error))
                continue
            names[i] = name
            # New models come last: one of the others may be dropped for them.
            places, contents = alike.setdefault((name in new, classes), ([], []))
            places.append(i)
            contents.append(message)
        groups = []
        for (_, classes), (places, contents) in sorted(
            alike.items(), key=lambda group: group[0][0]
        ):
            predictions, unreadable = self._parse_group(
                self._messages.of_classes(classes), places, [records[i] for i in places], contents,
                [names[i] for i in places],
            )  # fmt: skip
            bad += unreadable
            groups.append(predictions)
        if empty:
            first = self._messages.first
            groups.append(self._nothing(first, empty))
        return groups, sorted(bad, key=lambda pair: pair[0])

    def _nothing(self, messages: Messages, empty: list[int]) -> ReadPredictions:
        nothing, _ = self._parse_group(messages, [], [], [], [])
        return nothing._replace(empty=empty)

    def _parse_group(
        self,
        messages: Messages,
        places: Sequence[int],
        records: Sequence[RawMessage],
        contents: list[Any] | None,
        names: list[Name] | None,
    ) -> tuple[ReadPredictions, Bad]:
        runs = list[OrdinaryBatch | list[Prediction]]()
        ids, rows, at = list[bytes | None](), list[Any](), list[int]()
        empty, bad, off = list[int](), Bad(), 0
        for first, last, batch in self._runs(messages, records, contents):
            some = records[first:last]
            if batch is not None:
                by_key = self._messages.fields.id is None
                ids += [record.key for record in some] if by_key else batch.ids
                at += range(first, last)
                runs.append(batch)
                rows.append(batch.rows)
                off += batch.off
                continue
            reading = OpenedPredictions(messages, max_bytes=self._max_bytes)
            for k, record in enumerate(some):
                reading.append(record, UNOPENED if contents is None else contents[k])
            opened, P, divided = reading.checked()
            readable = list[Prediction]()
            for i, (prediction, record) in enumerate(zip(opened, some, strict=True), first):
                if isinstance(prediction, Prediction):
                    readable.append(prediction)
                    at.append(i)
                    ids.append(messages.id_of(prediction.message, record.key, record.headers))
                elif prediction is None:
                    empty.append(places[i])
                else:
                    bad.append((places[i], prediction))
            if len(readable) < len(opened):
                P = rows_at(P, [prediction.number for prediction in readable])
            runs.append(readable)
            rows.append(P)
            off += divided
        if len(at) < len(places):
            places = [places[i] for i in at]
            names = None if names is None else [names[i] for i in at]
        all_rows = rows[0] if len(rows) == 1 else np.concatenate(rows)
        if self._needs_id:
            with_ids = zip(places, ids, strict=True)
            bad += [
                (i, too_long(id)) for i, id in with_ids if id is not None and len(id) > LONGEST_ID
            ]
            bad.sort(key=lambda pair: pair[0])
        ids = [None if id is None or len(id) > LONGEST_ID else id for id in ids]
        return ReadPredictions(
            places, messages, runs, ids, all_rows, names, self._messages.segments, off, empty
        ), bad

    def _runs(
        self, messages: Messages, records: Sequence[RawMessage], contents: list[Any] | None
    ) -> Iterable[tuple[int, int, OrdinaryBatch | None]]:
        """Cut records into runs of ordinary ones, none of them near the limit of size, and others;
        those that are ``given`` are opened."""
        if contents is not None or not records:
            return [(0, len(records), None)]
        values = [record.value for record in records]
        if self._max_bytes is not None:
            most = far_below(messages, self._max_bytes)
            values = [
                None if value is None or len(value) > most or needs_measure(record) else value
                for record, value in zip(records, values, strict=True)
            ]
        return messages.ordinary.runs(values, labels=False)

    def _name(self, message: Any, record: RawMessage) -> Name:
        """Model and version of a prediction."""
        assert self._messages.naming is not None
        find = self._messages.first.predictions.find
        model, version = self._messages.naming.of_prediction(find, message, record.headers)
        return model or None, version or None
