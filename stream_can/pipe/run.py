"""pipe: run a learner between standard input and output, with its state in a file."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Hashable, Iterable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Literal

from stream_can.errors import StreamCANError
from stream_can.messages.codecs.codec import Codec
from stream_can.messages.fields import Fields, fields_of
from stream_can.messages.formats import JSON, Formats
from stream_can.messages.kinds import messages_of
from stream_can.pipe.lines import Stop, read_lines
from stream_can.pipe.output import complain, letters_file, write_lines
from stream_can.pipe.pipe_run import BadLine, PipeRun
from stream_can.pipe.saver import Saver
from stream_can.pipe.statefile import locked, open_state
from stream_can.row_kinds import refuse_others, row_kind
from stream_can.snapshot import same_file


def pipe(
    classes: int | Iterable[Hashable] | None = None,
    *,
    fields: Fields | None = None,
    labelled: bool = False,
    state: str | os.PathLike[str] | None = None,
    save_every: int = 50_000,
    skip: bool = False,
    dead_letters: str | os.PathLike[str] | None = None,
    errors: Literal["dead-letter", "fail"] = "dead-letter",
    recent_mb: float = 64,
    ask: float | None = None,
    format: Literal["json", "avro"] = "json",
    validation: tuple[Any, ...] | None = None,
    rows: str = "dense",
    stdin: BinaryIO | None = None,
    stdout: BinaryIO | None = None,
    **settings: Any,
) -> int:
    """Correct JSON lines from ``stdin`` to ``stdout`` until the input ends or a signal says stop.

    A line with probabilities is a prediction: it comes out corrected, in its place. A line with a
    label and no probabilities, or with a label and an echoed ``probs_raw``, is a label: it is
    learned and nothing comes out. Blank lines are passed over. What has been read is written at
    once, so that ``tail -f | stream-can pipe`` shows each line as it comes.

    Parameters
    ----------
    classes
        The names of the classes in the order of the columns, or their number. Not needed where the
        state file exists; must match it where given.
    fields
        Where in the lines everything is; labels are joined by the field ``id`` by default.
    labelled
        The lines carry their own label beside the probabilities: corrected first, then learned.
        Labels in lines of their own are bad lines then.
    state
        The file that the state is kept in, recent predictions included: resumed where it exists,
        replaced atomically every second in which something came (less often where a save takes
        long: it takes at most a tenth of the time), every ``save_every`` lines, at the end, and on
        SIGTERM or SIGINT. What ``replay --state``, `Corrector.to_bytes` or `Learner.to_bytes` wrote
        may lie there to start from. One pipe at a time has it; folders that are missing are made.
        None keeps nothing.
    save_every
        Lines between two saves at most. With many recent predictions (up to ``recent_mb``) a
        save writes all of them.
    skip
        The input starts at its first line again: pass over the lines that the state covers. Without
        it the input is taken to continue behind them.
    dead_letters
        A file that lines which cannot be read are appended to, as
        ``{"line": number, "error": reason, "input": text}`` (``input_base64`` where the text is not
        UTF-8); standard error where not given.
    errors
        "dead-letter", or "fail" to stop at the first bad line: exit code 1, the lines before it
        are out and saved, the state continues at that line.
    recent_mb
        Memory for predictions that wait for their label, see `Learner`; 0 keeps none.
    ask
        Ask for the labels of about this share of the predictions, more at first: these lines say
        ``"ask": "random"`` or ``"ask": "margin"``, see :class:`stream_can.LabelRequests`.
    format
        "json" for lines, or "avro": an object container file in, one out, with the fields that are
        added. A label is then a record with a label and no probabilities, or of which they are
        null. Of a container file a run reads all, or from its first record on with ``skip``.
    validation
        Rows (n, m) and labels (n,) for :meth:`stream_can.Corrector.fit`, and where columns are
        declared {column: n values}; only for a new state.
    rows
        Kind of rows: "dense", "multilabel" (what corrects is a
        :class:`stream_can.multilabel.MultiLabelCorrector`: a score for each label, by
        default in the field ``scores``; labels come as a list, or as {label: true or false}, in
        ``labels``; outputs have ``set``, the labels that the row is said to have), or "sparse" (a
        :class:`stream_can.sparse.SparseCorrector`: thousands of classes, of which a row lists the
        likeliest, as ``{class: probability}`` or a list of label and score; ``classes`` is "any",
        so where not given, or their number; outputs have ``rest``, what all other classes have
        together).
    stdin, stdout
        Binary streams; those of the process by default.
    **settings
        Those of :class:`stream_can.Corrector`, ``train_counts`` and ``segments`` included: the
        names of these are where their values stand in the lines.

    Returns
    -------
    The exit code: 0 the input ended, or SIGTERM; 1 a bad line with ``errors="fail"``, or a file
    that cannot be written; 2 settings or a state file that do not fit; 130 SIGINT; 141 standard
    output was closed, as by ``| head`` (the state file then stays at its last save, since it is
    not known which lines arrived).
    """
    source, sink = stdin or sys.stdin.buffer, stdout or sys.stdout.buffer
    path = None if state is None else Path(state)
    with ExitStack() as stack:
        try:
            kind = row_kind(rows)
            fields = fields or fields_of(rows, id="id")
            if errors not in ("dead-letter", "fail"):
                raise ValueError(f"errors: {errors!r}, expected 'dead-letter' or 'fail'")
            if path is not None and dead_letters and same_file(Path(dead_letters), path):
                raise ValueError(f"dead_letters: {dead_letters} is the state; name another file")
            if save_every < 1:
                raise ValueError(f"save_every: {save_every}, expected at least 1")
            if ask is not None and labelled:
                raise ValueError("ask: the lines carry their own labels")
            refuse_others(kind, "pipe", settings | {
                "validation": validation, "model": fields.model, "version": fields.version,
                f"format {format}": format != "json", "costs": fields.costs,
                "weight": fields.weight,
                "logits": fields.logits,
                "normalise always": fields.normalise == "always",
            })  # fmt: skip
            stop = stack.enter_context(Stop())
            container, formats = None, JSON
            if format == "avro":
                container = open_container(source, stop)
            elif format != "json":
                raise ValueError(f"format: {format!r}, expected 'json' or 'avro'")
            stack.enter_context(locked(path))
            pipe_state = open_state(path, classes, settings, recent_mb, ask, validation, kind)
            learner = pipe_state.learner
            if container is not None:
                sets = learner.sets is not None or kind.several_labels
                codec = avro_codec(
                    container, fields, asks=ask is not None, sets=sets, decides=bool(fields.costs)
                )
                formats = Formats(codec, codec)
            messages = messages_of(
                rows, learner.classes, fields, learner.train_prior, learner.segments, formats,
                numbering=learner.numbering,
            )  # fmt: skip
        except (StreamCANError, ValueError, TypeError) as error:
            return complain(error, 2)
        except OSError as error:
            return complain(error, 1)
        try:
            letters = letters_file(dead_letters, stack)
            saver = Saver(pipe_state, path, save_every)
            if container is None:
                write, inputs = (
                    partial(write_lines, sink),
                    read_lines(source, stop, saver.seconds_left),
                )
            else:
                write, inputs = container.writer(sink), container.records(saver.seconds_left)
            run = PipeRun(
                saver, messages, write, letters, labelled=labelled, stops=errors == "fail",
                skip=skip, lines=container is None,
            )  # fmt: skip
            for lines in inputs:
                run.take(lines)
            run.finish()
        except (BadLine, StreamCANError) as error:
            return complain(error, 1)
        except OSError as error:
            # Otherwise Python would flush at exit and report the error again.
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sink.fileno())
            return 141 if isinstance(error, BrokenPipeError) else complain(error, 1)
        if stop.signum is None or stop.signum == signal.SIGTERM:
            return 0
        return 128 + stop.signum


def open_container(source: BinaryIO, stop: Stop) -> Any:
    """Open the Avro container file on standard input; StreamCANError where it is none."""
    try:
        from stream_can.pipe.container import Container
    except ModuleNotFoundError:
        raise StreamCANError(
            "format: avro needs fastavro: pip install 'stream_can[avro]'"
        ) from None
    return Container(source, stop)


def avro_codec(container: Any, fields: Fields, **added: bool) -> Codec:
    """Create the codec of a container's records; BadMessage where they cannot be answered."""
    from stream_can.messages.codecs.avro import AvroCodec

    codec = AvroCodec(container, fields.probs, fields.raw, **added)
    container.head(codec.answer(container.schema(0)))
    return codec
