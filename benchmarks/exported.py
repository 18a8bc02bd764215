"""What an ONNX graph of an exported model brings on this CPU: milliseconds a batch, the best of several rounds.

Example: OMP_NUM_THREADS=1 python benchmarks/exported.py --system tupe_r --size base --shapes 1x16 1x128 8x128
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import torch

import tupe.transformers as ours
from tupe.checkpoints.to_onnx import FILE, QUANTIZED, export_onnx
from tupe.checkpoints.transformers_format import config_fields
from tupe.cli.main import status
from tupe.models.config import CONFIGS
from tupe.systems import SIZES, SYSTEMS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--system", choices=SYSTEMS, default="tupe_r", help="as in `tupe systems`")
    add("--size", choices=SIZES, default="base", help="as in `tupe systems`")
    add("--shapes", nargs="+", default=["1x16", "1x128", "8x128"], help="batch x length")
    add("--rounds", type=int, default=5, help="of which the best is shown; all runners take turns in each")
    args = parser.parse_args()

    import onnxruntime

    threads = int(os.environ.get("OMP_NUM_THREADS", "0"))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    named = vars(CONFIGS[f"{args.system}_{args.size}"]())
    fields = {name: getattr(value, "value", value) for name, value in named.items()}
    config = ours.TupeConfig(**config_fields({**fields, "max_positions": 512}), vocab_size=32768)
    model = ours.TupeModel(config).eval()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        report = export_onnx(Path(folder), int8=True)
        print(f"{args.system}_{args.size}: differs from PyTorch by {report.difference:.1e}; {threads} thread(s)")
        sessions = {
            name: onnxruntime.InferenceSession(str(Path(folder, file)), options, providers=["CPUExecutionProvider"])
            for name, file in (("onnxruntime", FILE), ("int8", QUANTIZED))
        }
        sizes = {"PyTorch": Path(folder, "model.safetensors"), "onnxruntime": Path(folder, FILE)}
        sizes["int8"] = Path(folder, QUANTIZED)
        print("MB:", ", ".join(f"{name} {path.stat().st_size / 1e6:.0f}" for name, path in sizes.items()))
        for shape in args.shapes:
            batch, length = map(int, shape.split("x"))
            ids = torch.randint(4, 32768, (batch, length))
            mask = torch.ones_like(ids)
            arrays = {"input_ids": ids.numpy(), "attention_mask": mask.numpy()}
            best = dict.fromkeys(sizes, float("inf"))
            for _ in range(args.rounds):
                for name in best:
                    start = time.perf_counter()
                    if name == "PyTorch":
                        with torch.inference_mode():
                            model(ids, attention_mask=mask)
                    else:
                        sessions[name].run(None, arrays)
                    best[name] = min(best[name], time.perf_counter() - start)
            print(f"{shape}:", ", ".join(f"{name} {1000 * seconds:.1f} ms" for name, seconds in best.items()))


if __name__ == "__main__":
    sys.exit(status(main))
