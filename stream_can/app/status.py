"""The state of one program for people: ``/status.json``, the versioned document behind the page."""

from __future__ import annotations

from msgspec import Struct, field

from stream_can.app.letters import Letter
from stream_can.trust.alarm import Episode

VERSION = 2
"""Version of the document: fields may be added; one that goes or changes its meaning raises it."""


class Score(Struct):
    """A mean over the labels that this process took and that are scored, before and after."""

    before: float
    after: float
    low: float | None
    """Where ``after - before`` lies with 95 % confidence; null in the first minute of labels."""
    high: float | None


class Window(Struct):
    """The last hour or day, as far as this process has run."""

    scored: int
    """Labels that this process took, of predictions that are known as they were sent."""
    accuracy: Score | None
    log_loss: Score | None
    """In nats."""
    records: int
    """Records of input, committed; tombstones and dead letters are among them."""
    labels: int
    matched: int
    """Labels that found their prediction."""
    unmatched: int
    """Labels that did not, and taught the class mix alone."""
    dead_letters: int
    asked: int
    """Labels asked for."""
    answered: int
    """Labels that this process took and that had been asked for, by whichever process."""
    commits: int
    given_up: int
    """Transactions."""
    commit_mean: float | None
    commit_longest: float | None
    """Seconds."""
    delay_from: float | None
    delay_to: float | None
    """Between these many seconds lies the median label delay; null is no end."""
    repeated: int = 0
    """Labels whose prediction had one before, and that taught nothing."""
    set_labels: int = 0
    """Labels of predictions whose prediction set is known."""
    set_kept: float | None = None
    """The share of these labels that are in the set."""
    set_size: float | None = None
    """Classes in a set, on average."""


class CourseStatus(Struct):
    """A window step by step, the oldest first; null where no label came."""

    seconds: int
    """Length of one step."""
    accuracy_before: list[float | None]
    accuracy_after: list[float | None]
    log_loss_before: list[float | None]
    log_loss_after: list[float | None]
    records: list[int]
    lag: list[int]
    rates: list[float | None] = field(default_factory=list)
    """Records a second while the process ran; null before it began."""


class ClassShare(Struct):
    """One class of the mix."""

    name: str
    labels: float | None
    """Its share of the labels, the older ones counting less; null before the first."""
    taken: float
    """The share that the corrector takes it for."""


class LearnedStatus(Struct):
    """A corrector in use."""

    offset: int | None
    """The number of the state; null of a server."""
    labels: int
    effective_sample_size: float
    age: float | None
    """Seconds since it was written."""
    log_loss_before: float | None
    log_loss_after: float | None
    """Log loss of all labels, the older ones counting less."""
    weights: dict[str, float]
    """Weights of the paths in the mixture."""
    final_weights: dict[str, float]
    """Weights of the rows in what goes out."""
    last_temperature: float
    coverage: float
    """How much of the correction the labels let out, from 0 to 1."""
    silent: list[str]
    """Classes that are left out of learning, the first 20."""
    n_silent: int
    classes: list[ClassShare]
    """The 300 largest; the others together are what is left of 1. Of several lanes 20."""
    lane: str = ""
    """Which model and version, where messages name them."""


class Partition(Struct):
    """A partition of the input that this process has; of a server the one there is."""

    partition: int
    lag: int | None
    records: int
    """This and the next one since it has it; of a server since its state began."""
    dead_letters: int


class Value(Struct):
    """A value of a column; what is scored is null where none of its labels is."""

    value: str
    rows: int
    labels: int
    """Labels that found their prediction."""
    scored: int
    accuracy_before: float | None
    accuracy_after: float | None
    log_loss_before: float | None
    log_loss_after: float | None
    calibration_before: float | None
    calibration_after: float | None
    """How far accuracy is from the mean confidence."""


class FewValues(Struct):
    """The few values that most labels come from, far more of them than of the rows."""

    values: list[str]
    of_labels: float
    of_rows: float
    """Their shares."""


class Column(Struct):
    """A declared column, in the partitions that this process has, since it has them."""

    name: str
    rows: int
    """Rows of all its values; predictions that waited for their label before are among them."""
    labels: int
    values: list[Value]
    """The 50 with most rows."""
    few: FewValues | None
    """Null where labels come from the values as rows do, or are too few to say it."""


class LaneScores(Struct):
    """A model and version: what is scored is null where none of its labels is."""

    model: str
    version: str
    successor_of: str | None
    """The version that it went on from, where there was one."""
    learned: int
    """Labels that the application has learned for it."""
    records: int
    """This and what follows of this process, since it began."""
    scored: int
    accuracy_before: float | None
    accuracy_after: float | None
    log_loss_before: float | None
    log_loss_after: float | None


class Side(Struct):
    """One version against another: "before" is the first of them, "after" the other."""

    accuracy: Score
    log_loss: Score


class TwoVersions(Struct):
    """Versions of a model on the labels of ids that both predicted, since this process began."""

    model: str
    version: str
    other: str
    labels: int
    raw: Side
    """The rows as the classifiers gave them."""
    sent: Side
    """The rows as they were sent."""


class Worse(Struct):
    """An episode of a model and version, or of all there is."""

    lane: str
    """Which; empty where messages name none."""
    episode: Episode


class Problem(Struct):
    """A problem, and what to do."""

    level: str
    """"bad", "doubt", or "good": then nothing is."""
    what: str
    do: str


class Status(Struct):
    """``/status.json``."""

    version: int
    release: str
    application: str
    instance: str
    has_labels: bool
    time: float
    """When this was made, in seconds since 1970."""
    since: float
    """When the process began."""
    live: bool
    ready: bool
    records_per_second: float
    lag: int | None
    """Records of the input that are not yet taken."""
    open_requests: int | None
    oldest_request: float | None
    """Age of the oldest, over the partitions together."""
    n_classes: int
    hour: Window
    day: Window
    hour_course: CourseStatus
    day_course: CourseStatus
    learned: list[LearnedStatus]
    partitions: list[Partition]
    dead_letters: list[Letter]
    """The last 20, the newest first."""
    n_dead_letters: int
    """Number of dead letters, of labels too, since this process has its partitions, or learns."""
    history_bytes: int
    """Memory of the hour and the day, which does not grow."""
    problems: list[Problem] = field(default_factory=list)
    """The worst first; never empty."""
    columns: list[Column] = field(default_factory=list)
    """Columns that are declared."""
    n_lanes: int | None = None
    """How many models and versions the application knows; null where messages name none."""
    max_lanes: int | None = None
    lanes: list[LaneScores] = field(default_factory=list)
    """The 50 with most records here."""
    versions: list[TwoVersions] = field(default_factory=list)
    """The 50 pairs with most labels."""
    refused: int = 0
    """Predictions of models that were more than ``max_lanes`` new ones in an hour, since this
    process began; 0 where the last of them came over an hour ago."""
    waits_for: str | None = None
    """Why records that came are not taken, where a schema registry has to answer first; of a server
    why its state file cannot be written."""
    over_http: bool = False
    """Whether it is a server, ``stream-can serve``: it has one partition, which nobody shares."""
    worse: list[Worse] = field(default_factory=list)
    """Where the classifier, or what is sent, is worse than before in this process' labels; of
    several lanes the 20 with most records."""
    cannot_learn: str | None = None
    refuses_labels: str | None = None
    """Why this process may not learn for the application any more."""
    learns: bool = False
    """Whether it does now."""
    changed_labels: int = 0
    """Labels that said otherwise than an earlier one of their prediction, by the one that learns
    here; they taught nothing."""
    sets: float | None = None
    """The share that prediction sets are to keep; null where outputs have none."""
