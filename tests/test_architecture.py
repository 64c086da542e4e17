"""The modules import downwards only, in no circle, as their picture shows; tests import no test."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from stream_can import Corrector, errors
from stream_can.row_kinds import KINDS

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))

import rooms  # noqa: E402

pytestmark = pytest.mark.fast


def test_no_import_climbs_or_runs_in_a_circle():
    assert rooms.faults(rooms.imports()) == []


def test_every_module_is_in_a_room():
    faces = {"", "__main__"}
    assert [name for name in rooms.modules() if not rooms.room(name) and name not in faces] == []


@pytest.mark.parametrize(
    ("file", "line", "fault"),
    [
        (
            "corrector.py",
            "from stream_can.learner.model_version import ModelVersion",
            "corrector may not import lea",
        ),
        ("kafka/client/member.py", "import stream_can.kafka.worker", "kafka.client may not import"),
        (
            "learner/model_version.py",
            "def f():\n    from stream_can.pipe import run",
            "learner may not import",
        ),
        ("pipe/run.py", "from stream_can.river.wrapper import X", "pipe may not import river"),
        ("pipe/run.py", "from stream_can import Corrector", "through its own package's __init__"),
        ("pipe/run.py", "from stream_can.pipe import BadLine", "through its own package's __init_"),
        (
            "learner/model_version.py",
            "from stream_can.learner.sent import X",
            "a circle: learner.",
        ),
        ("learner/model_version.py", "from stream_can.corrector import Corrector", None),
        ("errors.py", "from stream_can.scores import Scores", "errors may not import scores"),
        (
            "method/kernel.pyx",
            "cdef int x\n\nfrom stream_can.corrector import Corrector",
            "method.kernel, line 3: method may not import corrector",
        ),
        (
            "method/kernel.pyx",
            "cdef f():\n    from stream_can.messages.numbers cimport (\n        a as b\n    )",
            "method.kernel, line 2: method may not import messages",
        ),
        ("messages/numbers.pyx", "cimport stream_can.pipe.run as x", "messages may not import pi"),
        ("messages/numbers.pyx", "from stream_can.corrector import Corrector  # ours", None),
    ],
)
def test_a_wrong_import_is_found(file, line, fault, tmp_path):
    for path in rooms.modules().values():
        copy = tmp_path / path.relative_to(rooms.SOURCE)
        copy.parent.mkdir(exist_ok=True, parents=True)
        copy.write_text("")
    (tmp_path / "learner" / "sent.py").write_text("import stream_can.learner.model_version")
    (tmp_path / file).write_text(line)
    said = rooms.faults(rooms.imports(tmp_path))
    assert len(said) == (fault is not None)
    assert fault is None or fault in said[0]


def test_the_picture_shows_these_modules():
    assert rooms.PICTURE.read_text() == rooms.draw(), "python docs/rooms.py draws it anew"


def named(name):
    """The class that the tree of errors means."""
    module, _, own = name.rpartition(".")
    return getattr(importlib.import_module(f"stream_can.{module or 'errors'}"), own)


def test_the_tree_of_errors_names_every_exception_class():
    tree, _, inside = errors.__doc__.partition("Within the package")
    lines = re.findall(r"^((?:[│ ]   )*[├└]── )([\w.]+)(.*)$", tree, re.M)
    shown, above = {errors.StreamCANError}, [errors.StreamCANError]
    for branch, name, about in lines:
        error, depth = named(name), len(branch) // 4
        shown.add(error)
        above[depth:] = [error]
        assert error.__base__ is above[depth - 1], name
        if depth == 1:
            assert issubclass(error, ValueError) == ("(ValueError)" in about), name
    shown |= {named(name) for name in re.findall(r"[\w.]+\.[A-Z]\w+", inside)}
    defined = set()
    for name in rooms.modules():
        if rooms.room(name) != "spark" and name != "__main__":
            module = importlib.import_module(f"stream_can.{name}".rstrip("."))
            defined |= {
                value
                for value in vars(module).values()
                if inspect.isclass(value) and issubclass(value, BaseException)
                and value.__module__.startswith("stream_can.")
            }  # fmt: skip
    assert shown == defined


def imported_tests(text):
    """The names of tests and their modules that a module's text imports."""
    nodes = list(ast.walk(ast.parse(text)))
    names = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    names += [node.name for node in nodes if isinstance(node, ast.alias)]
    return [name for name in names if any(part.startswith("test_") for part in name.split("."))]


def test_no_module_imports_from_a_test():
    paths = [p for at in ("tests", "benchmarks", "examples") for p in (ROOT / at).rglob("*.py")]
    assert [path for path in paths if imported_tests(path.read_text())] == []


@pytest.mark.parametrize(
    "text",
    [
        "from tests.stream.test_task import label",
        "from tests.stream import test_task",
        "import numpy, tests.stream.test_task as task",
        "def f():\n    from .test_task import label",
    ],
)
def test_an_import_from_a_test_is_found(text):
    assert imported_tests(text)


EXTRAS = {
    "calibration": {"scipy", "sklearn"},
    "compare": {"matplotlib", "scipy", "sklearn"},
    "app": {"prometheus_client"},
    "kafka": {"crc32c", "kafka", "prometheus_client"},
    "kafka.client": {"crc32c", "kafka", "prometheus_client"},
    "messages": {"fastavro", "google"},
    "onnx": {"onnx"},
    "pipe": {"fastavro"},
    "recording": {"polars"},
    "report": {"matplotlib"},
    "river": {"pandas", "river", "scipy"},
    "serve": {"httptools", "prometheus_client", "uvicorn"},
    "serve with brokers": {"httptools", "prometheus_client", "uvicorn", "kafka"},
    "sklearn": {"scipy", "sklearn"},
}
"""Room -> what its extras bring; the others need none."""
WITH_BROKERS = {"serve.appender", "serve.brokers"}
"""Imported where a server is told of brokers."""
NOT_ALONE = {"cli", "spark"}
"""Commands import what they need when they are called; Spark has an environment of its own."""
IMPORT = """
import importlib, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"no {name}", name=name)

sys.meta_path.insert(0, Missing())
for name in names:
    importlib.import_module(f"stream_can.{name}")
"""


def test_a_room_needs_its_own_extras_alone():
    by_room = {}
    for name in rooms.modules():
        if name not in ("", "__main__") and rooms.room(name) not in NOT_ALONE:
            room = "serve with brokers" if name in WITH_BROKERS else rooms.room(name)
            by_room.setdefault(room, []).append(name)
    none = [name for room, names in by_room.items() if room not in EXTRAS for name in names]
    everything = set().union(*EXTRAS.values()) | {"cyclopts", "rich"}
    assert none
    for names, own in [(none, set()), *((by_room[room], own) for room, own in EXTRAS.items())]:
        program = f"names, missing = {names!r}, {everything - own!r}{IMPORT}"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_the_commands_need_no_extra_until_one_is_called(tmp_path):
    (tmp_path / "corrector.state").write_bytes(Corrector(["a", "b"]).to_bytes())
    missing = set().union(*EXTRAS.values())
    for arguments in ["--version"], ["inspect", str(tmp_path / "corrector.state")], ["pipe", "-h"]:
        program = f"names, missing = (), {missing!r}{IMPORT}"
        program += f"from stream_can.cli.main import main; sys.exit(main({arguments!r}))"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert done.returncode == 0, (arguments, done.stderr)


def test_a_server_starts_without_kafka():
    """Its extra brings no client of Kafka."""
    missing = {"crc32c", "kafka"}
    program = f"names, missing = (), {missing!r}{IMPORT}"
    program += "from stream_can.cli.main import main; sys.exit(main(['serve', '--max-lanes', 'x']))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, "max_lanes" in done.stderr) == (2, True), done.stderr


def test_no_class_has_the_name_of_another():
    names = Counter(
        node.name
        for path in rooms.modules().values()
        for node in rooms.statements(path)
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, n in names.items() if n > 1] == []


SHAPES_OF_ONE_KIND = {
    "onnx.export": "its graph is that of rows of one label",
    "sklearn.calibrator": "y of one column or of several chooses the corrector",
    "spark.application": "a frame of rows of one label",
    "snapshot": "the fields of snapshots",
    "row_kinds": "the table",
}
"""Modules that may ask what kind a corrector is, and why."""


def asks_for_a_kind(tree):
    """Lines of a module that ask whether a corrector, or what is given, is of one kind."""
    names = {*KINDS, "several", "listed"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and re.fullmatch(
            r"isinstance\(.*\b(Sparse|MultiLabel|Declared)?Corrector\b.*\)", ast.unparse(node)
        ):
            yield node.lineno
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(isinstance(one, ast.Constant) and one.value in names for one in sides):
                yield node.lineno
        if isinstance(node, ast.Attribute) and node.attr == "labels_per_row":
            yield node.lineno


def test_a_kind_of_rows_is_asked_through_the_table():
    """Before, the choice was made again in 13 files, and a kind was missing in some of them."""
    found = {}
    for name, path in rooms.modules().items():
        room = name.partition(".")[0]
        if path.suffix == ".py" and room not in KINDS and name not in SHAPES_OF_ONE_KIND:
            found[name] = [*asks_for_a_kind(ast.parse(path.read_text()))]
    assert {name: lines for name, lines in found.items() if lines} == {}
