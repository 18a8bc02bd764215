"""Writes the model that `tupe export` wrote as an ONNX graph for any batch and length, and checks it against PyTorch.

The graph is OUT/onnx/model.onnx, with --int8 also OUT/onnx/model_quantized.onnx. --data scores them and the model.
Example: tupe export-onnx tupe-base-rte --int8 --data data/glue/RTE
"""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="OUT", help="folder that `tupe export` or save_pretrained wrote")
    parser.add_argument("--int8", action="store_true", help="also a graph of 8-bit weights and products")
    parser.add_argument("--data", type=Path, help="prepared task or corpus, whose split valid is scored")


def run(args: argparse.Namespace) -> None:
    from tupe.checkpoints.to_onnx import export_onnx

    report = export_onnx(args.folder, args.int8, args.data)
    print(f"largest difference from PyTorch: {report.difference:.1e} of the largest output")
    for graph, scores in report.scores.items():
        print(f"{graph}: " + ", ".join(f"{metric} {score:.2f}" for metric, score in scores.items()))
    if args.int8 and args.data is None:
        print("note: the 8-bit graph differs from the model: give --data to see what that does to the score")
    for path in report.files:
        print(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB)")
