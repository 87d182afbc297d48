"""Sphinx configuration: ``python -m sphinx -W --keep-going -b html docs docs/_build/html``.

The gallery runs every ``examples/plot_*.py``, and a failure fails the build. With
``SKDPSUMM_GALLERY=0`` in the environment its examples are shown and not run.
"""

import importlib
import inspect
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
    "sphinx_copybutton",
    "sphinx_design",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates"]
default_role = "py:obj"

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4  # links to headings, as hosting sites have them
copybutton_prompt_text = r">>> |\.\.\. |\$ "  # is not copied
copybutton_prompt_is_regexp = True

toc_object_entries_show_parents = "hide"  # `fit`, not `RFFSketcher.fit`, in the sidebar
autodoc_typehints = "none"  # numpydoc has the types
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

html_theme = "pydata_sphinx_theme"
html_title = "skdpsumm"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars = {
    "index": [],
    "user_guide/sketch": [],
    "user_guide/learn": [],
    "api": ["api-groups.html"],
    "generated/**": ["api-groups.html"],
}
html_theme_options = {
    "github_url": "https://github.com/skdpsumm/skdpsumm",
    # The list of versions; a release adds a line, with the address of its own site.
    "switcher": {"json_url": "_static/switcher.json", "version_match": version},
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "navbar_end": ["version-switcher", "theme-switcher", "navbar-icon-links"],
    "navbar_persistent": ["search-button"],
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,  # methods, too
    "footer_start": ["copyright"],
    "footer_end": [],
}

# -- The gallery --------------------------------------------------------------------------------

EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))
# On the site an example of the gallery is a page; in the repository it is a script.
GALLERY = {path: HERE / "auto_examples" / f"{path.stem}.rst" for path in EXAMPLES}
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
        "image_srcset": ["2x"],  # on screens with twice the dots
        "backreferences_dir": "generated/backreferences",  # which example uses what
        "doc_module": "skdpsumm",
    }
    exclude_patterns.append("auto_examples/*.ipynb")


# A table of contents may name this page, and a site may have no examples.
SLOTS = {"auto_examples/index"}


def close_slots(app, docname, source):
    """Leave pages that are not there out of the tables of contents."""
    folder = Path(docname).parent
    missing = {os.path.relpath(slot, folder) for slot in SLOTS - set(app.env.found_docs)}
    source[0] = "\n".join(
        line for line in source[0].split("\n") if _SLOT.sub(r"\1", line) not in missing
    )


_SLOT = re.compile(r".*<(.*)>")  # Title <page>

# -- Pages that move ----------------------------------------------------------------------------

# README and its neighbours lie outside this folder.
MOVED = {
    ROOT / name: HERE / "pages" / name
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
}

_BY_FILE = re.compile(r"\[[\w./]+\.md\]\(")  # a link that shows a file's name shows the title here
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


def relinked(text, page, place):
    """Return the Markdown of a page with links that hold at another place."""

    def turn(match):
        target = (page.parent / match[1]).resolve()
        return "](" + os.path.relpath((MOVED | GALLERY).get(target, target), place.parent)

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
        source[0] = _BY_FILE.sub("[](", relinked(source[0], page, page))


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


_PAGE = re.compile(r"\bdocs/([\w/]+)\.md\b")


def link_pages(app, what, name, obj, options, lines):
    """Let a docstring that names a page of `docs` link to it."""

    def turn(match):
        page = HERE / f"{match[1]}.md"
        place = MOVED.get(page, page).relative_to(HERE).with_suffix("").as_posix()
        return f":doc:`/{place}`"

    lines[:] = [_PAGE.sub(turn, line) for line in lines]


# -- The sidebar of the API, and where a name is used -------------------------------------------

_HEADING = re.compile(r"^(.+)\n-+\n", re.MULTILINE)
_ENTRY = re.compile(r"^   ([A-Za-z]\w*)$", re.MULTILINE)


def api_groups():
    """Return the names of each group of `api.rst`, by its heading."""
    _, *parts = _HEADING.split((HERE / "api.rst").read_text())
    return {
        heading: _ENTRY.findall(text) for heading, text in zip(parts[::2], parts[1::2], strict=True)
    }


def show_groups(app, pagename, templatename, context, doctree):
    """Give the groups to the template of the sidebar."""
    context["api_groups"] = [
        (
            heading,
            nodes.make_id(heading),
            [(name, f"generated/{PUBLIC_NAMES[name]}") for name in names],
        )
        for heading, names in API_GROUPS.items()
    ]


# Pages that show how to use a name; where none does, those that say what it is.
HOW = ("how_to/*.md", "user_guide/*.md")
WHAT = ("m2m.md", "summaries.md", "learners.md", "federated.md", "auditing.md", "known_limits.md")
WHAT += ("before_you_sign.md",)


def used_in():
    """Return the pages that name each public name."""
    how, what = pages_that_name(HOW), pages_that_name(WHAT)
    return {name: how[name] or what[name] for name in PUBLIC_NAMES}


def pages_that_name(patterns):
    """Return the pages, of those that match, that name each public name."""
    found = {name: [] for name in PUBLIC_NAMES}
    for pattern in patterns:
        for page in sorted(HERE.glob(pattern)):
            for name in set(re.findall(r"\w+", page.read_text())) & set(found):
                found[name].append(page.relative_to(HERE).with_suffix("").as_posix())
    return found


def members_of(name):
    """Return the name and the kind of each member of a class that has a docstring of ours."""
    module, _, name = PUBLIC_NAMES[name].rpartition(".")
    public = getattr(importlib.import_module(module), name)
    found = inspect.classify_class_attrs(public) if isinstance(public, type) else []
    return [
        (one.name, "property" if one.kind == "property" else "method")
        for one in sorted(found)
        if one.name[0] != "_" and has_our_text(one.object)
    ]


def has_our_text(member):
    """Return whether a member has a docstring of ours; scikit-learn's link to its own site."""
    member = getattr(member, "fget", None) or getattr(member, "__func__", member)
    ours = (getattr(member, "__module__", None) or "").startswith("skdpsumm")
    return ours and bool(getattr(member, "__doc__", None))


def list_members(app, what, name, obj, options, lines):
    """List the members of a class above its parameters."""
    names = [name for name, _ in MEMBERS.get(obj.__name__, [])] if what == "class" else []
    if names:
        rules = [place for place, line in enumerate(lines) if line and set(line) == {"-"}]
        at = rules[0] - 1 if rules else len(lines)
        rows = [f"   ~{obj.__name__}.{name}" for name in names]
        lines[at:at] = ["", ".. autosummary::", "   :nosignatures:", "", *rows, ""]


API_GROUPS = api_groups()
MEMBERS = {name: members_of(name) for name in PUBLIC_NAMES}
autosummary_context = {
    "gallery": bool(EXAMPLES),
    "own_members": MEMBERS,
    "top_level": skdpsumm.__all__,
    "used_in": used_in(),
}


def setup(app):
    """Connect the hooks above."""
    app.connect("builder-inited", copy_moved_pages)
    app.connect("source-read", close_slots)
    app.connect("source-read", link_to_moved_pages)
    app.connect("autodoc-process-docstring", link_pages)
    app.connect("autodoc-process-docstring", list_members, priority=400)  # numpydoc comes after
    app.connect("missing-reference", link_public_name)
    app.connect("html-page-context", show_groups)
