"""Every snippet of the README and of the documentation runs as it stands, and every docstring's.

A page's blocks run in their order, in one folder and one namespace: python, sh, and toml (settings
of the worker). What cannot run here is written as text.
"""

import contextlib
import doctest
import importlib
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest

import stream_can
from tests.pages import ROOT, blocks, run_sh

pytestmark = pytest.mark.fast

README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(stream_can.__path__, "stream_can.")
    if not module.name.endswith("__main__") and "spark" not in module.name.split(".")
)


def load_toml(code):
    room = "kafka" if "bootstrap_servers" in code else "serve"
    Path("app.toml").write_text(code)
    settings = importlib.import_module(f"stream_can.{room}").load("app.toml", {}, {})
    assert settings.classes or settings.models or settings.rows == "sparse"


NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
RUNNING = [name for name, page in zip(NAMES, PAGES, strict=True) if list(blocks(page))]
RUNNING.remove("docs/spark.md")  # in tests/spark, with Spark
RUNNING.remove("docs/web-service.md")  # in tests/test_web_service.py, with a server
RUNNING.remove("docs/kafka.md")  # in tests/kafka, with a broker
RUNNING.remove("docs/servers.md")
RUNNING.remove("docs/security.md")  # in tests/kafka, with a broker
RUNNING.remove("docs/operations.md")  # in tests/kafka, with a broker
RUNNING.remove("docs/serve.md")  # in tests/serve, with a server


@pytest.mark.parametrize("name", RUNNING)
def test_snippets(name, tmp_path):
    namespace = {}
    with contextlib.chdir(tmp_path):
        for language, code in blocks(ROOT / name):
            if language == "python":
                exec(compile(code, name, "exec"), namespace)
            elif language == "sh" and "make " not in code:
                run_sh(code)
            elif language == "toml":
                load_toml(code)


def test_pages_that_have_snippets():
    """The pages whose snippets are meant to run: that none is passed over in silence."""
    wanted = {
        "README.md",
        "guide.md",
        "files.md",
        "asking.md",
        "pipe.md",
    }
    assert wanted <= {Path(name).name for name in RUNNING}


def test_the_first_minute_prints_what_the_readme_says(tmp_path, capsys):
    """The verdict on the sample, and what the lines of Python print."""
    _, _, (_, sample), (_, code), (language, printed), (_, replay) = blocks(ROOT / "README.md")
    with contextlib.chdir(tmp_path):
        run_sh(sample)
        exec(compile(code, "README.md", "exec"), {})
        answer = " ".join(run_sh(replay).split())
    verdict, *_ = re.findall("^> (Use it.*)$", README, re.M)
    assert verdict in answer
    assert (language, capsys.readouterr().out) == ("text", printed)
    before, after = map(float, re.findall(r"accuracy ([\d.]+)% before, ([\d.]+)", printed)[0])
    assert after > before + 1


def test_the_two_commands_come_first():
    (_, first), *_ = blocks(ROOT / "README.md")
    assert re.findall(r"^make (\w+)", first, re.M) == ["demo", "test"]
    assert README.index(first) < 800


def test_the_readme_is_short():
    assert README.count("\n") < 120


@pytest.mark.parametrize("name", NAMES)
def test_named_targets_exist(name):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    for target in re.findall(r"(?:^|`)make ([a-z-]+)", (ROOT / name).read_text(), re.M):
        assert target in targets


@pytest.mark.parametrize("name", NAMES)
def test_links(name):
    """In the repository; in the site `make docs` follows them, anchors included."""
    page = ROOT / name
    for target in re.findall(r"\]\(([^)#\s]+?)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_what_a_package_index_shows():
    """No relative link and no picture: they would lead nowhere there."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "](" not in (ROOT / pyproject["project"]["readme"]).read_text()


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_files_that_are_named_exist(name):
    named = re.findall(r"`([\w./-]+/[\w.-]*)`", (ROOT / name).read_text())
    assert named
    for path in named:
        if path.split("/")[0] in ("stream_can", "tests", "docs", "docker", "benchmarks"):
            assert (ROOT / path).exists(), path


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0
