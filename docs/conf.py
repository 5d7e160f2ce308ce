"""Sphinx's settings: MyST pages, numpydoc for the API, and two pages that are made from the program itself."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from fedsvd import __version__

project = "FedSVD"
author = "the FedSVD contributors"
copyright = "the FedSVD contributors, Apache License 2.0"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "fedsvd_pages"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "_ext", "README.md"]
myst_enable_extensions = ["colon_fence", "deflist"]  # formulas are code: a site that loads nothing from elsewhere
myst_heading_anchors = 3
myst_fence_as_directive = ["mermaid"]
# Links to the repository's own files are for readers of the repository; the site has no copy of them.
suppress_warnings = ["myst.xref_missing", "toc.not_included"]

autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"  # a page is of one class: its methods need not say which
autosummary_generate = False
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = f"FedSVD {__version__}"
html_static_path = ["_static"]
html_css_files = ["fedsvd.css"]
html_js_files = ["copy.js"]
html_copy_source = False
html_show_sourcelink = False
# Pages that stand alone have no list of neighbours: without this their sidebar is there and empty.
html_sidebars = {name: [] for name in ("index", "tutorial/*", "search", "genindex")}
# A page of broad tables has their width in place of a list of its headings: the last column was out of sight.
_BROAD = (
    "explanation/comparison explanation/large-matrices explanation/life-of-a-job explanation/speed howto/manuscript"
)
_BROAD += (
    " notation protocol reference/chaos reference/cli reference/formats reference/honest-studies reference/networks"
)
_BROAD += " specification threat-model"
html_theme_options = {
    "logo": {"text": "FedSVD"},
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": {"**": ["page-toc"], **{name: [] for name in _BROAD.split()}},
    "footer_start": ["copyright"],
    "footer_end": [],
}
