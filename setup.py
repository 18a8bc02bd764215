"""The folders of the package; all else is in pyproject.toml. `configs/` ships as `tupe/configs`.

The records of the study's final runs ship as `tupe/references`: `tupe plot training --reference` reads them.
"""

from setuptools import find_namespace_packages, find_packages, setup

setup(
    packages=[
        *find_packages(include=["tupe", "tupe.*"]),
        *(f"tupe.{name}" for name in find_namespace_packages(include=["configs", "configs.*"])),
        "tupe.analysis.template",
        "tupe.references",
    ],
    package_dir={"tupe.configs": "configs", "tupe.references": "docs/results/runs/cpu/final"},
    package_data={
        "": ["*.yaml", "*.json"],
        "tupe": ["py.typed"],
        "tupe.analysis.template": ["*"],
    },
)
