"""The folders of the package; all else is in pyproject.toml. `configs/` ships as `tupe/configs`."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["tupe", "tupe.*"]), "tupe.configs"],
    package_dir={"tupe.configs": "configs"},
    package_data={"tupe": ["py.typed"], "tupe.analysis": ["template/*"], "tupe.configs": ["**/*.yaml"]},
)
