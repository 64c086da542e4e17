"""The status document of a program, ``/status.json``: versioned, shown by the live page."""

from __future__ import annotations

from msgspec import Struct, field

from stream_can.app.letters import Letter
from stream_can.trust.episode import Episode

VERSION = 2
"""Version of the document; raised when a field is removed or changes its meaning."""


class Score(Struct):
    """Mean over scored labels of this process, before and after correction."""

    before: float
    after: float
    low: float | None
    """95 % confidence interval of ``after - before``; null in the first minute of labels."""
    high: float | None


class Expected(Struct):
    """Accuracy of the sent rows, as far as it can be told before their labels come."""

    value: float
    low: float
    high: float
    """95 % interval."""


class Window(Struct):
    """The last hour or day, as far as this process has run."""

    scored: int
    """Labels of predictions known as they were sent."""
    accuracy: Score | None
    log_loss: Score | None
    """In nats."""
    records: int
    """Committed input records, including tombstones and dead letters."""
    labels: int
    matched: int
    """Labels that found their prediction."""
    unmatched: int
    """Labels without their prediction, which taught the class mix alone."""
    dead_letters: int
    asked: int
    """Labels requested."""
    answered: int
    """Requested labels that this process received, whichever process requested them."""
    commits: int
    given_up: int
    """Number of transactions."""
    commit_mean: float | None
    commit_longest: float | None
    """In seconds."""
    delay_from: float | None
    delay_to: float | None
    """Bucket of the median label delay in seconds; null is no end."""
    repeated: int = 0
    """Labels of already labelled predictions, which taught nothing."""
    early: int = 0
    """Labels that were given up before their prediction came."""
    without_id: int = 0
    """Predictions that no label can find."""
    set_labels: int = 0
    """Labels of predictions with a known prediction set."""
    set_kept: float | None = None
    """Share of these labels that are in the set."""
    set_size: float | None = None
    """Mean number of classes in a set."""
    expected_accuracy: Expected | None = None
    """Of the rows sent in this window, whether their labels came or not; null without rows of one
    label."""


class CourseStatus(Struct):
    """A window step by step, oldest first; null where there were no labels."""

    seconds: int
    """Length of a step."""
    accuracy_before: list[float | None]
    accuracy_after: list[float | None]
    log_loss_before: list[float | None]
    log_loss_after: list[float | None]
    records: list[int]
    lag: list[int]
    rates: list[float | None] = field(default_factory=list)
    """Records per second while the process ran; null before it started."""


class ClassShare(Struct):
    """One class of the mix."""

    name: str
    labels: float | None
    """Decayed share of the labels; null before the first."""
    taken: float
    """Share that the corrector assumes."""


class LearnedStatus(Struct):
    """A corrector in use."""

    offset: int | None
    """Number of the state; null for a server."""
    labels: int
    effective_sample_size: float
    age: float | None
    """Seconds since it was written."""
    log_loss_before: float | None
    log_loss_after: float | None
    """Decayed mean log loss of all labels."""
    log_loss_fitted: float | None
    """The same of what `fit` alone would have sent; null without it."""
    weights: dict[str, float]
    """Weights of the paths in the mixture."""
    final_weights: dict[str, float]
    """Weights of the rows in the output."""
    last_temperature: float
    coverage: float
    """How much of the correction the labels let out, from 0 to 1."""
    silent: list[str]
    """Classes left out of learning, the first 20."""
    n_silent: int
    classes: list[ClassShare]
    """The 300 largest, or 20 with several lanes; the rest of the sum to 1 is the others'."""
    changed: list[ClassShare] = []
    """Of sparse rows: the 20 whose share of the labels differs most from their mean
    probability in the rows."""
    lane: str = ""
    """Model and version, where messages name them."""


class Backlog(Struct):
    """Records that wait for the learner."""

    waiting: int
    done: float | None = None
    """How many of them it does in a second, over the last minute; null in the first 10 s."""
    came: float | None = None
    """Records that come in a second in the same partitions."""

    @property
    def grows(self) -> bool:
        """Whether as many come as are done, or more."""
        return None not in (self.done, self.came) and self.came >= self.done  # type: ignore[operator]


class Partition(Struct):
    """An assigned input partition; for a server, all there is."""

    partition: int
    lag: int | None
    records: int
    """This and the next: since it was assigned; for a server since its state began."""
    dead_letters: int


class Value(Struct):
    """A value of a column; scores are null without labels."""

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
    """|accuracy - mean confidence|."""


class FewValues(Struct):
    """A few values with a far larger share of labels than of rows."""

    values: list[str]
    of_labels: float
    of_rows: float
    """Their shares."""


class Confused(Struct):
    """Rows of the last hour that are predicted as one class and are likely another."""

    predicted: str
    label: str
    rows: float
    """Rows predicted as it."""
    expected: float
    """Share of these that are the other class, by the probabilities that were sent."""
    labels: float
    """Labels of such rows that came in the last hour, by weight."""
    share: float | None
    """Share of these that are the other class; null without labels."""


class Column(Struct):
    """A declared column, in the assigned partitions, since they were assigned."""

    name: str
    rows: int
    """Rows of all values; includes predictions that were waiting for labels before."""
    labels: int
    values: list[Value]
    """The 50 values with most rows."""
    few: FewValues | None
    """Null where labels are spread over values like rows, or are too few to tell."""


class LaneScores(Struct):
    """A model and version; scores are null without labels."""

    model: str
    version: str
    successor_of: str | None
    """Version from which it was started, if any."""
    learned: int
    """Labels that the application has learned for it."""
    records: int
    """This and the following: of this process, since it started."""
    scored: int
    accuracy_before: float | None
    accuracy_after: float | None
    log_loss_before: float | None
    log_loss_after: float | None


class Side(Struct):
    """A version against another: "before" is the first, "after" the other."""

    accuracy: Score
    log_loss: Score


class TwoVersions(Struct):
    """Versions of a model on labels of ids that both predicted, since this process started."""

    model: str
    version: str
    other: str
    labels: int
    raw: Side
    """Raw rows."""
    sent: Side
    """Sent rows."""


class Worse(Struct):
    """An alarm episode of a model and version, or of the only one."""

    lane: str
    """Model and version; empty where messages name none."""
    episode: Episode


class Problem(Struct):
    """A problem and its remedy."""

    level: str
    """"bad", "doubt", or "good": no problem."""
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
    """Time of the document, in seconds since 1970."""
    since: float
    """Start of the process."""
    live: bool
    ready: bool
    records_per_second: float
    lag: int | None
    """Lag: input records not yet processed."""
    open_requests: int | None
    oldest_request: float | None
    """Age of the oldest one in all partitions."""
    n_classes: int
    hour: Window
    day: Window
    hour_course: CourseStatus
    day_course: CourseStatus
    learned: list[LearnedStatus]
    partitions: list[Partition]
    dead_letters: list[Letter]
    """The last 20, newest first."""
    n_dead_letters: int
    """Number of dead letters, including labels, since the assignment or since it learns."""
    history_bytes: int
    """Memory of hour and day; constant."""
    problems: list[Problem] = field(default_factory=list)
    """Worst first; never empty."""
    columns: list[Column] = field(default_factory=list)
    """The declared columns."""
    n_lanes: int | None = None
    """Number of models and versions of the application; null where messages name none."""
    max_lanes: int | None = None
    lanes: list[LaneScores] = field(default_factory=list)
    """The 50 with most records here."""
    versions: list[TwoVersions] = field(default_factory=list)
    """The 50 pairs with most labels."""
    refused: int = 0
    """Predictions refused because more than ``max_lanes`` models began within an hour, since this
    process started; 0 where the last was over an hour ago."""
    away: float = 0.0
    """Seconds for which no broker has answered; 0 where they may be there."""
    unlearned: float = 0.0
    """Seconds for which nobody has learned what this worker sends, from 30 on; 0 where somebody
    may."""
    waits_for: str | None = None
    """Why records wait for a schema registry; for a server, why its state file cannot be
    written."""
    backlog: Backlog | None = None
    """What of this worker's partitions the learner has yet to correct; null without."""
    unlearned_batches: Backlog | None = None
    """Of the process that learns the sent batches that it has yet to learn, where it is behind by
    10 s; else null."""
    over_http: bool = False
    """Whether it is a server, ``stream-can serve``, which has one partition."""
    worse: list[Worse] = field(default_factory=list)
    """Open alarm episodes, where the classifier or the output became worse, by this process'
    labels; of several lanes the 20 with most records."""
    cannot_learn: str | None = None
    refuses_labels: str | None = None
    """Why this process can no longer learn for the application."""
    unowned: dict[int, int] = field(default_factory=dict)
    """Records of input partitions of which no worker has corrected any for a minute, as the process
    that learns knows."""
    corrects: bool = True
    """Whether this process corrects; ``stream-can learn`` does not."""
    passes: list[str] = field(default_factory=list)
    """Models whose rows go out as they came, because ``correct`` is off; ``*`` is all others."""
    learns: bool = False
    """Whether this process learns now."""
    changed_labels: int = 0
    """Labels that contradicted an earlier one of their prediction, counted by the learner here;
    they taught nothing."""
    sets: float | None = None
    """Coverage promised by prediction sets; null without sets."""
    confused: list[Confused] = field(default_factory=list)
    """The 20 pairs of classes with most rows expected, in the process that learns; empty with more
    than 32 classes, and where messages name models."""
