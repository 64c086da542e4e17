"""The documentation site: Sphinx over these pages, four files of the repository and the docstrings.

Why Sphinx: it reads numpydoc docstrings itself, makes a warning of every broken link and reference
and an error of every warning, and needs no network to build or to read. ``make docs``.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from pathlib import Path
from typing import Any, is_typeddict

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.pycode import ModuleAnalyzer
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

from stream_can.version import __version__

sys.path.insert(0, str(Path(__file__).parent))

from fill import BLOCK, ROOT, parts_of, public_names

log = logging.getLogger(__name__)

project, author, release = "stream_can", "the authors of stream_can", __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["package.md"]  # what a package index shows
nitpicky = True
nitpick_ignore_regex = [
    ("py:class", r"(?!stream_can).*"),  # types in signatures: mostly of other packages
    ("py:class", r"stream_can\.messages\.records\.Source"),  # whatever has a record's attributes
    ("py:class", r"stream_can\.messages\.probability_formats\.Form"),  # of one message
    ("py:class", r"stream_can\.messages\.naming\.LaneName"),  # a model and its version
    ("py:class", r"stream_can\.learner\.call\.Explained"),  # for replays
    ("py:class", r"stream_can\.change\.Change"),  # of a score, with its error
    ("py:class", r"stream_can\.recording\.(table\.LabelLines|times\.RowTimes)"),  # for doubts
    ("py:class", r"stream_can\.replay\.sets\.Group"),  # of rows, whose coverage is told
    ("py:class", r"stream_can\.river\.corrected\.C"),  # the corrector behind a wrapper
    ("py:class", r"stream_can\.method\.sums\.Part"),  # a row of sums: for those who add them up
]
html_theme = "furo"
html_title = f"stream_can {release}"
html_copy_source = False
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}
html_math_renderer = "mathml"
pygments_style = "friendly"
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
default_role = "code"
autodoc_member_order = "bysource"
autodoc_default_options = {
    "members": True,
    "undoc-members": False,
    # scikit-learn makes these itself, with references into its own site
    "exclude-members": "set_score_request, set_partial_fit_request",
}
napoleon_google_docstring = False
napoleon_custom_sections = ["Returns", "Yields"]  # prose: the signature says the type

REFERENCE = {
    "corrector": ["stream_can"],
    "learner": ["stream_can.learner"],
    "scores": ["stream_can.scores"],
    "alarm": ["stream_can.trust"],
    "sparse": ["stream_can.sparse"],
    "multilabel": ["stream_can.multilabel"],
    "recordings": [
        "stream_can.recording",
        "stream_can.replay",
        "stream_can.dense.result",
        "stream_can.dense.moment",
        "stream_can.multilabel.result",
        "stream_can.sparse.result",
        "stream_can.report",
    ],
    "snapshot": ["stream_can.snapshot"],
    "calibration": ["stream_can.calibration"],
    "compare": ["stream_can.compare"],
    "sklearn": ["stream_can.sklearn"],
    "river": ["stream_can.river"],
    "requests": ["stream_can.app.labelling.request_message"],
    "messages": [
        "stream_can.messages.messages",
        "stream_can.messages.ordinary_reader",
        "stream_can.messages.label",
        "stream_can.messages.kinds",
        "stream_can.messages.formats",
        "stream_can.messages.codecs.codec",
        "stream_can.messages.fields",
        "stream_can.messages.probability_formats",
        "stream_can.messages.sparse_formats",
    ],
    "pipe": ["stream_can.pipe"],
    "kafka": ["stream_can.kafka"],
    "serve": ["stream_can.serve"],
    "onnx": ["stream_can.onnx"],
    "spark": ["stream_can.spark"],
}
"""Page of the reference -> the modules whose public names, their ``__all__``, it lists."""

INCLUDED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "reporting.md",
    "benchmarks/RESULTS.md": "results.md",
    "docker/README.md": "containers.md",
}
"""Files of the repository -> the page that shows them."""


# -- pages: what stands elsewhere is put in, links are those of the repository ---------------------


def expand(app: Any, docname: str, source: list[str]) -> None:
    """Replace the comments that ask for something, and lead links to the page of what they name."""
    page = Path(app.env.doc2path(docname))
    text = rewrite_links(source[0], page.parent, page.parent)
    text = re.sub(r"^<!-- include (.+) -->\n.*$", lambda m: include(m[1]), text, flags=re.M)
    source[0] = BLOCK.sub(lambda m: reference(m[2]) if m[1] == "names" else m[0], text)


def include(name: str) -> str:
    path = ROOT / name
    return rewrite_links(path.read_text(), path.parent, ROOT / "docs")


def reference(module_name: str) -> str:
    """Every public name of a module that no module before it has shown."""
    module = importlib.import_module(module_name)
    parts = [f".. py:module:: {module_name}\n   :no-index:\n"]
    for name in public_names(module):
        thing = getattr(module, name)
        if (module_name, name) != shown_at(thing, name):
            continue
        full_name = f"{module_name}.{name}"
        if is_typeddict(thing):  # its keys stand in a table
            parts.append(f".. py:class:: {full_name}\n\n   {inspect.getdoc(thing)}\n")
            continue
        if inspect.isclass(thing):
            kind = "exception" if issubclass(thing, BaseException) else "class"
        elif callable(thing):
            kind = "function"
        else:
            said = constant_doc(name, thing)
            parts.append(f".. py:data:: {full_name}\n\n   {said}\n")
            continue
        option = ""
        if mine := parts_of(thing) if inspect.isclass(thing) else []:
            others = [base.__name__ for base in thing.__mro__[1:] if base not in mine]
            option = f"   :inherited-members: {', '.join(others)}\n"
        parts.append(f".. auto{kind}:: {full_name}\n{option}")
        warn_of_gaps(full_name, thing)
    return "```{eval-rst}\n" + "\n".join(parts) + "\n```"


def rewrite_links(text: str, folder: Path, page_folder: Path) -> str:
    """Links of a file in ``folder`` to files of the repository, as links of a page elsewhere."""

    def rewrite(match: re.Match[str]) -> str:
        target, anchor = match[1], match[2] or ""
        path = (folder / target).resolve()
        path = path / "README.md" if path.is_dir() else path
        name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
        goal = ROOT / "docs" / INCLUDED[name] if name in INCLUDED else path
        return f"]({os.path.relpath(goal, page_folder)}{anchor})"

    return re.sub(r"\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)", rewrite, text)


# -- the reference ---------------------------------------------------------------------------------


def shown_at(thing: Any, name: str) -> tuple[str, str]:
    """The first of the reference's modules that has a thing under this name."""
    for names in REFERENCE.values():
        for module_name in names:
            module = importlib.import_module(module_name)
            if name in public_names(module) and getattr(module, name) is thing:
                return module_name, name
    raise LookupError(name)


def constant_doc(name: str, thing: Any) -> str:
    """What stands below a constant, in whichever module defines it."""
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("stream_can.") and vars(module).get(name) is thing:
            found = ModuleAnalyzer.for_module(module_name).find_attr_docs()
            if ("", name) in found:
                return " ".join(found["", name])
    log.warning("%s is public and has no docstring", name)
    return ""


def warn_of_gaps(full_name: str, thing: Any) -> None:
    """A public name or member without a docstring is a warning, so an error of the build."""
    gaps = [] if inspect.getdoc(thing) else [full_name]
    if inspect.isclass(thing):
        gaps += [
            f"{full_name}.{name}"
            for name, member in vars(thing).items()
            if not name.startswith("_")
            and (inspect.isroutine(member) or isinstance(member, property))
            and not inspect.getdoc(getattr(thing, name))
        ]
    for gap in gaps:
        log.warning("%s is public and has no docstring", gap)


class Verbatim(str):
    """An annotation shown as it is written."""

    __repr__ = str.__str__


def signature(app: Any, what: str, name: str, thing: Any, *_: Any) -> tuple[str, str] | None:
    """Annotations as the source writes them, not as they are once resolved."""
    if what not in ("function", "method", "class") or not callable(thing):
        return None
    try:
        found = inspect.signature(thing)
    except ValueError:  # a compiled class that nobody creates
        return None
    if what == "class" and "__init__" not in vars(thing):
        return "", ""
    text = [
        parameter.replace(annotation=written(parameter.annotation))
        for parameter in found.parameters.values()
        if parameter.name != "self"
    ]
    returned = written(found.return_annotation)
    shown = str(found.replace(parameters=text, return_annotation=inspect.Signature.empty))
    return shown, "" if what == "class" or returned is found.empty else str(returned)


def written(annotation: Any) -> Any:
    return Verbatim(annotation) if isinstance(annotation, str) else annotation


def docstring(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """The house's docstrings as reStructuredText: formulas, numbered sources, |x| as it stands."""
    text = "\n".join(lines)
    text = re.sub(
        r"^( *)\$\$(.+?)\$\$", lambda m: f"{m[1]}.. math:: {' '.join(m[2].split())}", text,
        flags=re.M | re.S,
    )  # fmt: skip
    text = re.sub(r"^( *)(?:\.\. \[(\d+)\]|\[\^(\d+)\]:) ", r"\1\2\3. ", text, flags=re.M)
    text = re.sub(r"\[(\d+)\]_", r"[\1]", text)
    lines[:] = [
        line if "``" in line or ".. math::" in line or ">>>" in line else line.replace("|", "\\|")
        for line in text.split("\n")
    ]
    if what in ("property", "attribute"):
        lines[:0] = ["..", ""]  # napoleon takes the first line's text up to a colon for a type


def by_last_names(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """A reference to ``Recording.chunks`` from a module that is shown under another name."""
    if node.get("refdomain") != "py" or node["reftype"] == "class":
        return None
    domain = env.domains.python_domain
    found = domain.find_obj(env, None, None, node["reftarget"], node["reftype"], searchmode=1)
    if len(found) != 1:
        return None
    name, entry = found[0]
    return make_refnode(app.builder, node["refdoc"], entry.docname, entry.node_id, contnode, name)


# -- formulas: MathML, which browsers draw themselves ----------------------------------------------


def visit_math(self: Any, node: Any) -> None:
    block = node.tagname == "math_block"
    self.body.append('<div class="math">' if block else "")
    self.body.append(tex2mathml(node.astext(), as_block=block))
    self.body.append("</div>" if block else "")
    raise nodes.SkipNode


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math, None))
    app.connect("source-read", expand)
    app.connect("missing-reference", by_last_names)
    app.connect("autodoc-process-signature", signature)
    app.connect("autodoc-process-docstring", docstring, priority=400)  # before napoleon
