"""Writes the model that `tupe export` wrote as an ONNX graph for any batch and length, and checks it against PyTorch.

The graph is OUT/onnx/model.onnx. Example: tupe export-onnx tupe-base-rte
"""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="OUT", help="folder that `tupe export` or save_pretrained wrote")


def run(args: argparse.Namespace) -> None:
    from tupe.checkpoints.to_onnx import export_onnx

    path, difference = export_onnx(args.folder)
    print(f"largest difference from PyTorch: {difference:.1e} of the largest output")
    print(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB)")
