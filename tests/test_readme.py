"""Every snippet of the README, and every docstring's example, runs as it stands."""

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import stream_can

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.M | re.S)
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(stream_can.__path__, "stream_can.")
    if not module.name.endswith("__main__")
)


def blocks(language):
    return [text for kind, text in BLOCKS if kind == language]


@pytest.mark.parametrize("code", blocks("python"))
def test_python(code):
    exec(compile(code, "README.md", "exec"), {})


def test_the_two_commands_come_first():
    assert blocks("sh")[0].split()[:2] == ["make", "demo"]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    for target in re.findall(r"(?:^|`)make ([a-z-]+)", README, re.M):
        assert target in targets


@pytest.mark.parametrize("code", [block for block in blocks("sh") if "make " not in block])
def test_shell(code, tmp_path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("code", blocks("toml"))
def test_settings(code, tmp_path):
    kafka = importlib.import_module("stream_can.kafka")
    file = tmp_path / "app.toml"
    file.write_text(code)
    assert kafka.load(file, {}, {}).classes == ["fraud", "review", "fine"]


def test_links():
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", README):
        if "://" not in target:
            assert (ROOT / target).exists(), target


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0
