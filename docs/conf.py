"""Sphinx configuration: ``python -m sphinx -W --keep-going -b html docs docs/_build/html``.

The gallery runs every ``examples/plot_*.py``, and a failure fails the build. With
``SKDPSUMM_GALLERY=0`` in the environment its examples are shown and not run.
"""

import importlib
import os
import re
from pathlib import Path

from docutils import nodes
from sphinx.util.nodes import make_refnode

import skdpsumm

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

project = "skdpsumm"
author = copyright = "The skdpsumm developers"
version = release = skdpsumm.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates"]
default_role = "py:obj"

myst_heading_anchors = 4  # links to headings, as hosting sites have them

autodoc_typehints = "none"  # numpydoc has the types
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = f"skdpsumm {version}"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_theme_options = {
    "show_nav_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

# -- The gallery --------------------------------------------------------------------------------

EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))
if EXAMPLES:
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": str(ROOT / "examples"),
        "gallery_dirs": "auto_examples",
        "filename_pattern": r"plot_",
        "ignore_pattern": r"^(?!(.*[/\\])?plot_[^/\\]*\.py$)",
        "within_subsection_order": "FileNameSortKey",
        "abort_on_example_error": True,
        "plot_gallery": os.environ.get("SKDPSUMM_GALLERY", "1") != "0",
        "download_all_examples": False,
        "show_memory": False,
        "min_reported_time": 1,
        "backreferences_dir": None,
    }
    exclude_patterns.append("auto_examples/*.ipynb")


def add_gallery(app, docname, source):
    """List the gallery behind the user guide, where there is one."""
    if docname == "index" and EXAMPLES:
        source[0] = source[0].replace("guide/index\n", "guide/index\nauto_examples/index\n", 1)


# -- Pages that move ----------------------------------------------------------------------------

# README and its neighbours lie outside this folder, and "search" is Sphinx's own page.
MOVED = {
    HERE / "search.md": HERE / "pages/private_search.md",
    **{
        ROOT / name: HERE / "pages" / name
        for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
    },
}
exclude_patterns.append("search.md")

_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


def relinked(text, page, place):
    """Return the Markdown of a page with links that hold at another place."""

    def turn(match):
        target = (page.parent / match[1]).resolve()
        return "](" + os.path.relpath(MOVED.get(target, target), place.parent)

    return _LINK.sub(turn, text)


def copy_moved_pages(app):
    """Write the pages to where they move to; one that has not changed is not read again."""
    for page, place in MOVED.items():
        place.parent.mkdir(exist_ok=True)
        text = relinked(page.read_text(), page, place)
        if not place.exists() or place.read_text() != text:
            place.write_text(text)


def link_to_moved_pages(app, docname, source):
    """Let links to pages that move lead to where they are."""
    page = Path(app.env.doc2path(docname))
    if page.suffix == ".md":
        source[0] = relinked(source[0], page, page)


# -- The API ------------------------------------------------------------------------------------


def public_names():
    """Return the full name of the page of each public name; that of its sub-package wins."""
    packages = [path.parent.name for path in (ROOT / "skdpsumm").glob("*/__init__.py")]
    found = {name: f"skdpsumm.{name}" for name in skdpsumm.__all__}
    for package in sorted(packages):
        module = importlib.import_module(f"skdpsumm.{package}")
        found |= {name: f"{module.__name__}.{name}" for name in module.__all__}
    return found


PUBLIC_NAMES = public_names()


def link_public_name(app, env, node, contnode):
    """Resolve `RFFSketcher`, as docstrings have it, on the page of any package."""
    name, _, member = node.get("reftarget", "").removeprefix("skdpsumm.").partition(".")
    if node.get("refdomain") != "py" or name not in PUBLIC_NAMES:
        return None
    target = ".".join(filter(None, (PUBLIC_NAMES[name], member)))
    found = env.domains["py"].objects.get(target)
    if found is None or not isinstance(contnode, nodes.Node):
        return None
    return make_refnode(app.builder, node["refdoc"], found.docname, found.node_id, contnode, target)


def skip_foreign(app, what, name, obj, skip, options):
    """Leave out the members that come from scikit-learn, whose text has links of its own site."""
    module = getattr(getattr(obj, "fget", obj), "__module__", None) or "skdpsumm"
    return skip or not module.startswith("skdpsumm")


def setup(app):
    """Connect the hooks above."""
    app.connect("builder-inited", copy_moved_pages)
    app.connect("source-read", add_gallery)
    app.connect("source-read", link_to_moved_pages)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("missing-reference", link_public_name)
