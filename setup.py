"""Packaging of TUPE, a fairseq plugin. The build backend and the tools' settings are in pyproject.toml."""

from setuptools import find_packages, setup

CORPUS = ["sacremoses", "spacy"]
PLOT = ["matplotlib"]
TRANSLATION = ["sacrebleu"]
LAUNCHERS = [  # of Hydra 1.3; official fairseq, before Python 3.11, brings Hydra 1.0
    'hydra-joblib-launcher; python_version >= "3.11"',
    'hydra-submitit-launcher; python_version >= "3.11"',
]
TRANSFORMERS = [  # exported models: written by the first three, used by the fourth
    'protobuf; python_version >= "3.11"',
    'safetensors; python_version >= "3.11"',
    'tokenizers; python_version >= "3.11"',
    'transformers>=5.14; python_version >= "3.11"',
]
ONNX = [
    'onnx; python_version >= "3.11"',
    'onnxruntime; python_version >= "3.11"',
    'onnxscript; python_version >= "3.11"',
]

setup(
    name="tupe",
    version="0.1.0",
    description="TUPE and DIET position encodings for today's Python, PyTorch and fairseq",
    author="TUPE plugin contributors",
    license="MIT",
    packages=find_packages(include=["tupe", "tupe.*"]),
    package_data={"tupe.analysis": ["template/*"]},  # of tupe report
    python_requires=">=3.9",
    install_requires=[
        # Official fairseq does not import on Python 3.11 and later; fairseq-fixed is the same code, made to.
        'fairseq-fixed==0.12.3.1; python_version >= "3.11"',
        'fairseq==0.12.2; python_version < "3.11"',
        "hydra-core",  # at the versions of the fairseq that is there
        "omegaconf",
        "numpy",
        "pyyaml",
        "sentencepiece>=0.2.2",  # offsets of pieces
        "torch>=2.5",
        "tqdm",
    ],
    extras_require={
        "corpus": CORPUS,  # cleans and tokenises raw text
        "plot": PLOT,  # draws figures
        "translation": TRANSLATION,  # scores translations
        "machines": ["datatrove>=0.10", "regex", "tokenizers", "orjson", "nltk"],  # scripts/deduplicate.py
        "launchers": LAUNCHERS,  # spread a sweep over GPUs and SLURM
        "transformers": TRANSFORMERS,  # tupe export, tupe import
        "onnx": ONNX,  # tupe export-onnx, with "transformers"
        "test": [
            *CORPUS,
            *PLOT,
            *TRANSLATION,
            *LAUNCHERS,
            *TRANSFORMERS,
            *ONNX,
            'accelerate; python_version >= "3.11"',  # Transformers' Trainer
            "hypothesis",
            "packaging",
            "pytest",
            "pytest-xdist",
            "ruff",
            "scikit-learn",  # compared with our metrics, as is scipy
            "scipy",
            'sentence-transformers; python_version >= "3.11"',
            'triton; sys_platform == "linux"',
        ],
    },
    entry_points={"console_scripts": ["tupe = tupe.cli.main:main"]},
)
