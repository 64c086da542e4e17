"""Settings of every application: classes, messages, models, the corrector."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from stream_can.app.model_settings import Counts, ModelSettings, Name
from stream_can.learner.switch import CorrectionSwitch
from stream_can.messages.fields import Fields, fields_of
from stream_can.method.rows import Normalise
from stream_can.method.segments import column_names
from stream_can.method.settings import LOOP, PROMISE, SETTINGS, check_settings
from stream_can.method.settings_help import given_settings
from stream_can.row_kinds import KINDS, refuse_few_classes, refuse_others, row_kind

SEGMENTS_MB = 0.5
"""Default of ``segments_mb``: a corrector with columns then fits topics with default limits."""


def described(help_: str, **bounds: Any) -> Meta:
    """A setting's help text and bounds."""
    return Meta(description=help_, **bounds)


_is = described

if TYPE_CHECKING:

    class OfCorrector(msgspec.Struct, frozen=True):
        """All corrector settings; those used here have names."""

        monotone: bool | None
        paths: list[str] | None
        segments: list[str] | None
        segments_mb: float | None
        sets: float | None

else:
    OfCorrector = given_settings(segments_mb=SEGMENTS_MB)


OF_SOME = (
    "classes", "classes_from_file", "costs", "weight", "logits", "train_counts", "train_rows",
    "max_classes", "n_classes", "memory_mb", "model", "version", "models", *SETTINGS,
)  # fmt: skip
"""Settings that not all kinds of rows have."""


class ApplicationSettings(OfCorrector, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """Settings of every application."""

    place: ClassVar[str] = "server"
    """Where its rows are played, see `stream_can.row_kinds.RowKind.has`."""
    secret_names: ClassVar[tuple[str, ...]] = ()
    """Settings that may come from a file, ``<name>_from_file``."""
    files: ClassVar[tuple[str, ...]] = ("classes_from_file",)
    """Settings that hold a path, relative to the file that contains them."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Names of the settings: the program's own first, then those of every application."""
        shared = ApplicationSettings.__struct_fields__
        specific = [name for name in cls.__struct_fields__ if name not in shared]
        return (*specific, *(name for name in shared if name not in SETTINGS), *SETTINGS)

    application_id: Annotated[str, _is("name of the application", min_length=1)]
    classes: Annotated[list[Name] | None, _is("class names in the order of the arrays")] = None
    train_counts: Annotated[
        Counts | None, _is("training rows per class, in class order or by name: cat=900,dog=80")
    ] = None
    classes_from_file: Annotated[
        str | None,
        _is("file to begin with: JSON with classes and train_counts, or a snapshot"),
    ] = None

    rows: Annotated[str, _is(f"kind of rows: {', '.join(KINDS)}")] = "dense"
    train_rows: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        _is("number of training rows, for the train_counts of multilabel rows"),
    ] = None

    max_classes: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        _is("most classes of sparse rows, if classes are names (1,000,000; topics: 98,304)"),
    ] = None
    n_classes: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        _is("number of classes of sparse rows, if classes are numbers"),
    ] = None
    memory_mb: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        _is("memory for the classes of sparse rows, in MiB (1024; topics: 24)"),
    ] = None

    probs: Annotated[str, _is("field of the probabilities; dots lead into nested objects")] = (
        "probs"
    )
    raw: Annotated[str, _is("field for the original probabilities; empty: not kept")] = "probs_raw"
    id: Annotated[str | None, _is("field that joins labels to predictions (the key)")] = None
    label: Annotated[str, _is("field of the label")] = "label"
    normalise: Annotated[
        Normalise, _is("when to divide a row by its sum: where rounding explains it, or always")
    ] = "rounded"
    logits: Annotated[bool, _is("probs holds logits; outputs have probabilities")] = False
    digits: Annotated[int | None, _is("round the output to this many digits")] = None
    costs: Annotated[
        dict[str, float | dict[str, float]],
        _is(
            "costs of an action by class, block:fraud=0,fine=20, or for every class, review=8;"
            " outputs then have the cheapest action, in the field decision"
        ),
    ] = {}  # noqa: RUF012, msgspec copies it
    model: Annotated[
        str | None,
        _is("field, or header:NAME, with the model's name; each model learns separately"),
    ] = None
    version: Annotated[str | None, _is("field, or header:NAME, with the model's version")] = None
    weight: Annotated[
        str | None,
        _is("field, or header:NAME, with the weight of a label; labels without it count once"),
    ] = None
    only_listed_models: Annotated[
        bool, _is("refuse predictions of models without a table [models.NAME]")
    ] = False
    max_lanes: Annotated[
        int,
        _is("models and versions to keep; then the one silent longest goes", ge=1, le=10_000),
    ] = 1000
    models: Annotated[
        dict[str, ModelSettings], _is("[models.NAME]: settings of one model; only in the file")
    ] = {}  # noqa: RUF012, msgspec copies it

    correct: Annotated[
        bool, _is("correct rows; if off, they go out unchanged, and learning continues")
    ] = True
    ask: Annotated[
        Annotated[float, Meta(gt=0, le=1)] | None, _is("share of predictions to request labels for")
    ] = None
    recent_mb: Annotated[float, _is("memory for predictions that wait for their label", gt=0)] = 64
    http_port: Annotated[
        int | None, _is("port of the status page, /livez, /readyz and /metrics (off)")
    ] = None
    http_host: Annotated[str, _is("address of http_port (this machine only)")] = "127.0.0.1"
    live_seconds: Annotated[float, _is("seconds the loop may hang before /livez fails", gt=0)] = 120
    log_format: Annotated[Literal["text", "json"], _is("format of log lines")] = "text"
    log_level: Annotated[
        Literal["DEBUG", "INFO", "WARNING", "ERROR"], _is("lowest level to log")
    ] = "INFO"

    def __post_init__(self) -> None:
        self._refuse_others()
        sources_of_classes = self.classes is not None, self.classes_from_file is not None
        if all(sources_of_classes):
            raise ValueError("classes, classes_from_file: give one of them, not both")
        if not any(sources_of_classes) and self.needs_classes:
            raise ValueError(
                "classes: give their names in the order of the probabilities, or classes_from_file"
            )
        refuse_few_classes(row_kind(self.rows), self.classes)
        if self.model is None and (self.models or self.only_listed_models):
            setting = "models" if self.models else "only_listed_models"
            raise ValueError(f"{setting}: needs model, the field that names the model")
        if not any(sources_of_classes) and self.train_counts is not None:
            raise ValueError("train_counts: needs classes")
        for name, model_settings in self.models.items():
            try:
                refuse_few_classes(row_kind(self.rows), model_settings.classes)
                check_settings(self._given(LOOP) | model_settings.corrector)
            except ValueError as error:
                raise ValueError(f"models.{name}: {error}") from None
        if self.max_classes is not None and self.n_classes is not None:
            raise ValueError("max_classes: of named classes, n_classes of numbered ones; give one")
        if self.http_port is not None and not 0 <= self.http_port <= 65535:
            raise ValueError(f"http_port: {self.http_port}, expected 0 to 65535")
        self._check_name("application_id", self.application_id)
        check_settings(self._given(SETTINGS))
        column_names(self.segments or ())
        _ = self.fields  # raises where they are inconsistent

    def _refuse_others(self) -> None:
        """Raise ValueError for settings that rows of another kind have."""
        chosen = {name: getattr(self, name, None) for name in OF_SOME}
        for name in self.formats:
            chosen[f"format {name}"] = name != "json"
        chosen["normalise always"] = self.normalise == "always"
        refuse_others(row_kind(self.rows), self.place, chosen)

    @property
    def formats(self) -> tuple[str, str]:
        """Formats of predictions and labels."""
        return "json", "json"

    @staticmethod
    def _check_name(name: str, value: str) -> None:
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,120}", value):
            raise ValueError(f"{name}: {value!r} may only hold letters, digits, '.', '_', '-'")

    @property
    def has_sets(self) -> bool:
        """Whether answers have prediction sets, or the labels decided on."""
        return self.sets is not None or row_kind(self.rows).several_labels

    @property
    def needs_classes(self) -> bool:
        """Whether nothing else defines the classes."""
        return not self.has_lanes and row_kind(self.rows).declares_classes

    @property
    def has_lanes(self) -> bool:
        """Whether messages name a model or a version."""
        return self.model is not None or self.version is not None

    @property
    def corrector(self) -> dict[str, Any]:
        """Given keyword arguments of `Corrector`, except classes, counts and those of sets."""
        return self._given(name for name in SETTINGS if name not in PROMISE)

    @property
    def switch(self) -> CorrectionSwitch:
        """Whether rows are corrected, of all models and of some otherwise."""
        switches = {name: model_settings.correct for name, model_settings in self.models.items()}
        return CorrectionSwitch(
            self.correct, {name: on for name, on in switches.items() if on is not None}
        )

    @property
    def fields(self) -> Fields:
        """Fields of the messages, under the default names of the kind of rows."""
        defaults, chosen = Fields(), {"probs": self.probs, "raw": self.raw, "label": self.label}
        named = {key: name for key, name in chosen.items() if name != getattr(defaults, key)}
        return fields_of(
            self.rows, **named, id=self.id, digits=self.digits, normalise=self.normalise,
            model=self.model, version=self.version, weight=self.weight, costs=self.costs,
            logits=self.logits,
        )  # fmt: skip

    @property
    def field_names(self) -> list[str]:
        """Names of the message fields that were given."""
        places = (self.probs, self.raw, self.label, self.id, self.model, self.version, self.weight)
        return [name for name in places if name]

    def _given(self, names: Iterable[str]) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}
