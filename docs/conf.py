"""Sphinx configuration: ``python -m sphinx -W --keep-going -b html docs docs/_build/html``.

The gallery runs every ``examples/plot_*.py``. With ``SKDPSUMM_GALLERY=0`` in the environment, or
``-D plot_gallery=0``, its examples are shown and not run.
"""

import importlib
import os
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
        "ignore_pattern": r"^(?!.*[/\\]plot_[^/\\]*\.py$)",
        "within_subsection_order": "FileNameSortKey",
        "abort_on_example_error": True,
        "plot_gallery": os.environ.get("SKDPSUMM_GALLERY", "1") != "0",
        "download_all_examples": False,
        "show_memory": False,
        "min_reported_time": 1,
        "backreferences_dir": None,
    }
    exclude_patterns.append("auto_examples/*.ipynb")
else:
    suppress_warnings = ["toc.empty_glob"]  # of the index, which names the gallery

# -- Pages of the repository's root -------------------------------------------------------------

ROOT_PAGES = ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")


def copy_root_pages(app):
    """Make pages of README and its neighbours, with their links to ``docs/`` turned around."""
    (HERE / "project").mkdir(exist_ok=True)
    for name in ROOT_PAGES:
        text = (ROOT / f"{name}.md").read_text()
        text = text.replace("](docs/", "](../").replace("](examples/", "](../../examples/")
        copy = HERE / "project" / f"{name}.md"
        if not copy.exists() or copy.read_text() != text:  # an untouched page is not read again
            copy.write_text(text)


def link_root_pages(app, docname, source):
    """Let links of the pages to ``../README.md`` lead to its copy."""
    for name in ROOT_PAGES:
        source[0] = source[0].replace(f"](../{name}.md", f"](project/{name}.md")


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
    app.connect("builder-inited", copy_root_pages)
    app.connect("source-read", link_root_pages)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("missing-reference", link_public_name)
