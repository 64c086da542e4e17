"""What pages show of the code stands in them, and is what it is."""

import sys
from importlib.util import module_from_spec, spec_from_file_location

import pytest

from tests.pages import ROOT

pytestmark = pytest.mark.fast

PAGES = sorted((ROOT / "docs").rglob("*.md"))


@pytest.fixture(scope="module")
def filled():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from fill import filled
    finally:
        sys.path.pop(0)
    return filled


def test_pages_are_not_old(filled):
    """What a script makes of code, options and docstrings: `python docs/fill.py` makes it again."""
    old = [str(page.relative_to(ROOT)) for page in PAGES if "<!-- end -->" in page.read_text()
           and filled(page.read_text()) != page.read_text()]  # fmt: skip
    assert old == []


def test_no_page_ends_where_a_comment_asks_for_more():
    """On a forge a comment shows nothing: behind each stands what it asks for."""
    asked = 0
    for page in PAGES:
        lines = page.read_text().splitlines()
        for at, line in enumerate(lines):
            if line.startswith("<!-- ") and line != "<!-- end -->":
                asked += 1
                assert lines[at + 1] not in ("", "<!-- end -->"), f"{page}, line {at + 1}"
    assert asked > 30


def test_each_figure_has_its_command():
    """`benchmarks/all.py` runs each program of benchmarks, by a command that a page names."""
    spec = spec_from_file_location("all_commands", ROOT / "benchmarks" / "all.py")
    runs = module_from_spec(spec)
    spec.loader.exec_module(runs)
    named = {command[1] for command in runs.commands()}
    programs = {
        f"benchmarks/{path.name}" for path in (ROOT / "benchmarks").glob("*.py")
        if 'if __name__ == "__main__"' in path.read_text()
    }  # fmt: skip
    assert programs - {"benchmarks/all.py"} == named
