"""``stream-can export``: a frozen corrector as an ONNX model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from stream_can.app.settings import SettingsError
from stream_can.cli.arguments import argument_errors, refuse_to_overwrite
from stream_can.cli.inspection import read_snapshot, require_key
from stream_can.onnx.export import to_onnx
from stream_can.snapshot import save


def export_command(
    snapshot: Path,
    *,
    output: Path,
    key: str | None = None,
    float32: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Write a corrector as an ONNX model, which corrects as it does now and learns nothing.

    Example: stream-can export corrector.state --output corrector.onnx

    Parameters
    ----------
    snapshot
        File written by replay --state, pipe --state, a server that has stopped, or from to_bytes()
        of a corrector or Learner; of dense rows, without segments and sets.
    output
        File to write the model to.
    key
        The corrector of this model and version, as named by inspect.
    float32
        Input and output are float32, in place of float64.
    """
    refuse_to_overwrite([snapshot], {"--output": output})
    correctors = read_snapshot(snapshot)
    names = ", ".join(correctors)
    if key is None and len(correctors) > 1:
        raise SettingsError(f"{snapshot}: several correctors; choose one with --key: {names}")
    if key is not None:
        require_key(key, correctors)
    corrector, _ = correctors[key or next(iter(correctors))]
    with argument_errors():
        model = to_onnx(corrector, single=float32)
    save(model, output)
    return 0
