"""Sphinx: the reference of what users import, made of the docstrings by `sphinx-build -W docs/api build/api`."""

import tupe

project = "tupe"
version = release = tupe.__version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
default_role = "code"  # of a name in single backticks
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_inherit_docstrings = False  # those of fairseq and Transformers are theirs
autodoc_typehints = "description"
napoleon_use_ivar = True  # a field of a NamedTuple would stand there twice
html_copy_source = False
