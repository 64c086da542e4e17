"""The open inference protocol, version 2, in JSON: tensors of probabilities in and out.

The response of the step before, as an InferenceGraph hands it on, is a request too: of version 2
with `outputs`, or of version 1 with `predictions`.

https://github.com/kserve/open-inference-protocol, used by KServe, Seldon, Triton and others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from stream_can.messages.codecs.codec import DECISION, SET
from stream_can.messages.fields import put
from stream_can.messages.naming import LONGEST
from stream_can.serve.service import MOST_MESSAGES
from stream_can.serve.settings import ServeSettings
from stream_can.serve.tensors import (
    NUMBERS,
    BadRequest,
    OutputTensor,
    Tensor,
    Word,
    matrix_of,
    texts_of,
)

IDS = "ids"
MOST_TENSORS = 1000
LONGEST_ID = 1000
"""Maximum length of a request's id, to which the number of the row is added."""


class RequestedOutput(msgspec.Struct):
    """A requested output."""

    name: Word
    parameters: dict[str, Any] = {}


class Request(msgspec.Struct):
    """Body of a request."""

    inputs: Annotated[list[Tensor], Meta(max_length=MOST_TENSORS)]
    id: str | None = None
    parameters: dict[str, Any] = {}
    outputs: Annotated[list[RequestedOutput], Meta(max_length=MOST_TENSORS)] | None = None


class PreviousStep(msgspec.Struct):
    """Body of a response as a request."""

    outputs: Annotated[list[Tensor], Meta(max_length=MOST_TENSORS)] = []
    predictions: Annotated[list[msgspec.Raw], Meta(max_length=MOST_MESSAGES)] | None = None
    id: str | None = None


class InferenceAnswer(msgspec.Struct, omit_defaults=True):
    """Body of a response."""

    model_name: str
    outputs: list[OutputTensor]
    model_version: str | None = None
    id: str | None = None


_read = msgspec.json.Decoder(Request).decode
_read_previous = msgspec.json.Decoder(PreviousStep).decode
_write = msgspec.json.Encoder().encode


class Inference:
    """A request of the protocol, converted to messages.

    Parameters
    ----------
    body
        Body of the request.
    settings
        The server's settings.
    model, version
        Model and version of the URL.

    Raises
    ------
    BadRequest
        The request is invalid or cannot be served; the message names the field.
    """

    def __init__(self, body: bytes, settings: ServeSettings, model: str, version: str) -> None:
        predictions: list[msgspec.Raw] | None = None
        try:
            request = _read(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            previous = _previous_step(body)
            if previous is None:
                why = str(error).replace("`$.", "`")
                raise BadRequest(f"not a request of the protocol, in JSON: {why}") from None
            predictions = previous.predictions
            request = Request(_rows_among(previous.outputs, settings), previous.id)
        # They stand in the message of each row.
        for field, text, most in (
            ("id", request.id, LONGEST_ID), ("model", model, LONGEST),
            ("version", version, LONGEST),
        ):  # fmt: skip
            if text is not None and len(text) > most:
                raise BadRequest(f"{field}: {len(text):,} characters, expected at most {most:,}")
        named = settings.model is not None
        if not named and model != settings.application_id:
            raise BadRequest(f"model {model!r}: here is {settings.application_id!r}")
        if version and settings.version is None:
            raise BadRequest(f"version {version!r}: the setting version names no field for it")
        self._model, self._version, self._id = model, version, request.id
        columns = {name: name.split(".") for name in settings.segments or ()}
        self.messages: list[bytes] = []
        self._path = settings.fields.probs.split(".")
        ids: list[Any] | None = None
        self._is_v1, self._texts = predictions is not None, list[str]()

        def add_message(i: int, row: Any) -> None:
            message: dict[str, Any] = {}
            put(message, self._path, row)
            if ids is not None or request.id is not None:
                put(message, settings.id.split("."), f"{request.id}/{i}" if ids is None else ids[i])
            if named and settings.model is not None:
                put(message, settings.model.split("."), model)
            if settings.version is not None:
                put(message, settings.version.split("."), version)
            for name, path in columns.items():
                if name in texts:
                    put(message, path, texts[name][i])
            self.messages.append(_write(message))

        texts: dict[str, list[Any]] = {}
        for i, prediction in enumerate(predictions or ()):
            add_message(i, prediction)
        if predictions is not None:
            return
        names_of_texts = {IDS, *columns}
        candidates = [tensor for tensor in request.inputs if tensor.name not in names_of_texts]
        if len(candidates) != 1:
            names = ", ".join(repr(tensor.name) for tensor in candidates[:9]) or "none"
            raise BadRequest(f"inputs: expected one tensor of probabilities, found {names}")
        (probs,) = candidates
        self._name = probs.name
        text_outputs = _text_outputs(settings)
        if probs.name in text_outputs:
            raise BadRequest(
                f"inputs.{probs.name}: an output has this name; give the tensor another one"
            )
        outputs = [probs.name, *text_outputs]
        self._requested = outputs
        if request.outputs is not None:
            self._requested = [output.name for output in request.outputs]
        requested = self._requested
        if sorted({*requested} & {*outputs}) != sorted(requested) or not requested:
            raise BadRequest(f"outputs: expected {' or '.join(map(repr, outputs))}, each once")
        self._texts = [name for name in text_outputs if name in requested]
        self._type: Any = probs.datatype
        P = matrix_of(probs)
        self.shape = P.shape
        read_as_texts = (tensor for tensor in request.inputs if tensor is not probs)
        texts = {tensor.name: texts_of(tensor, len(P)) for tensor in read_as_texts}
        ids = texts.get(IDS)
        for i, row in enumerate(P.tolist()):
            add_message(i, row)

    def response(self, outputs: Sequence[bytes]) -> bytes:
        """Build the response from the corrected messages: their rows, and of each the set as a JSON
        text, and the decision."""
        corrected = list[Any]()
        texts: dict[str, list[str]] = {name: [] for name in self._texts}
        for output in outputs:
            value = message = msgspec.json.decode(output)
            for name, values in texts.items():
                text = message.get(name)
                values.append(_write(text).decode() if name == SET else text)
            for name in self._path:
                value = value[name]
            corrected.append(value)
        if self._is_v1:
            return _write({"predictions": corrected})
        data = [number for row in corrected for number in row]
        tensors = {self._name: OutputTensor(self._name, list(self.shape), self._type, data)}
        for name, values in texts.items():
            tensors[name] = OutputTensor(name, [len(values)], "BYTES", values)
        requested = [tensors[name] for name in self._requested]
        return _write(InferenceAnswer(self._model, requested, self._version or None, self._id))


def _text_outputs(settings: ServeSettings) -> list[str]:
    """Names of the outputs beside the rows."""
    return [*([SET] if settings.has_sets else []), *([DECISION] if settings.costs else [])]


def _previous_step(body: bytes) -> PreviousStep | None:
    """The response of the step before; None where the body is none."""
    try:
        previous = _read_previous(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return previous if previous.outputs or previous.predictions is not None else None


def _rows_among(outputs: Sequence[Tensor], settings: ServeSettings) -> list[Tensor]:
    """The tensors of a response that are read: numbers of several classes, ids and columns."""
    texts = (IDS, *(settings.segments or ()))
    return [
        tensor
        for tensor in outputs
        if tensor.name in texts or (tensor.datatype in NUMBERS and tensor.shape[-1:] > [1])
    ]


def metadata(settings: ServeSettings, model: str, version: str | None, m: int) -> bytes:
    """Response of ``/v2/models/{name}``."""
    size = m if m > 1 else -1
    probs = {"name": settings.fields.probs, "datatype": "FP64", "shape": [-1, size]}
    ids = {"name": IDS, "datatype": "BYTES", "shape": [-1]}
    columns = [{"name": c, "datatype": "BYTES", "shape": [-1]} for c in settings.segments or ()]
    texts = [{"name": name, "datatype": "BYTES", "shape": [-1]} for name in _text_outputs(settings)]
    model_metadata: dict[str, Any] = {
        "name": model,
        "versions": [] if version is None else [version],
        "platform": "stream_can",
        "inputs": [probs, ids, *columns],
        "outputs": [probs, *texts],
    }
    return _write(model_metadata)
