"""The folders of the package; all else is in pyproject.toml. `configs/` ships as `tupe/configs`."""

from setuptools import find_namespace_packages, find_packages, setup

setup(
    packages=[
        *find_packages(include=["tupe", "tupe.*"]),
        *(f"tupe.{name}" for name in find_namespace_packages(include=["configs", "configs.*"])),
    ],
    package_dir={"tupe.configs": "configs"},
    package_data={
        "": ["*.yaml", "*.json"],
        "tupe": ["py.typed"],
    },
)
