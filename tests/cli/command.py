"""The command line as a user meets it: its output, its exit code."""

from tests.forks import command, run

KAFKA = {"run", "backfill", "--topic", "--config"}
"""What imports kafka-python, which itself uses what Python deprecates."""


def stream_can(*arguments, code=0, extra_env=None, input="", cwd=None):
    """Run `stream-can`; returns what it wrote to standard output and standard error."""
    done = run(
        command, [*map(str, arguments)], strict=not KAFKA & {*arguments}, input=input.encode(),
        env={"COLUMNS": "120", "NO_COLOR": "1"} | (extra_env or {}), cwd=cwd,
    )  # fmt: skip
    out, err = done.out.decode(), done.err.decode()
    assert done.code == code, out + err
    assert "Traceback" not in err
    return out, err
