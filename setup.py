"""The folders of the package; all else is in pyproject.toml. `configs/` ships as `tupe/configs`.

The records of the study's final runs ship as `tupe/references`: `tupe plot training --reference` reads them.
"""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["tupe", "tupe.*"]), "tupe.configs", "tupe.references"],
    package_dir={"tupe.configs": "configs", "tupe.references": "docs/results/runs/cpu/final"},
    package_data={
        "tupe": ["py.typed"],
        "tupe.analysis": ["template/*"],
        "tupe.configs": ["**/*.yaml"],
        "tupe.references": ["*.json"],
    },
)
