"""Pool the features of a text into a vector, as a folder's sentence-transformers settings specify."""

import math
import shutil
from pathlib import Path
from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor

from tupe.util import read_json, write_json

MODULES, _SETTINGS = "modules.json", "sentence_bert_config.json"
#: Pooling modes of sentence-transformers -> the flags that older folders have instead.
_MODES = {"cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens"}


class Pooling(NamedTuple):
    """How the features of a text become its vector."""

    mode: str = "mean"
    normalize: bool = False
    longest: float = math.inf  # maximum number of tokens, special ones included
    lower_case: bool = False  # texts become lower case before the tokenizer

    def __call__(self, features: Tensor, words: Tensor) -> Tensor:
        """Return vectors `(B, d)` of `features` `(B, n, d)`; `words` `(B, n)` is False at padding."""
        there = words.unsqueeze(-1)
        if self.mode == "cls":
            vectors = features[:, 0]
        elif self.mode == "max":
            vectors = features.masked_fill(~there, -math.inf).amax(1)
        else:
            vectors = (features * there).sum(1) / there.sum(1)
        return F.normalize(vectors, dim=-1) if self.normalize else vectors


def read_pooling(folder: Path) -> Pooling | None:
    """Return the pooling that the files in `folder` describe; `None` without files, or with modules beyond pooling."""
    modules = read_json(folder / MODULES) if (folder / MODULES).is_file() else []
    kinds = [module["type"].rpartition(".")[2] for module in modules]
    if kinds[:2] != ["Transformer", "Pooling"] or kinds[2:] not in ([], ["Normalize"]):
        return None
    if any(Path(module["path"]).name != module["path"] for module in modules):
        return None
    config = read_json(folder / modules[1]["path"] / "config.json")
    flags = [mode for mode, flag in _MODES.items() if config.get(f"pooling_mode_{flag}")]
    mode = config.get("pooling_mode", flags[0] if len(flags) == 1 else None)
    paths = (folder / _SETTINGS, folder / "tokenizer_config.json")  # the length is in either
    settings, tokenizer = (read_json(path) if path.is_file() else {} for path in paths)
    longest = settings.get("max_seq_length") or tokenizer.get("model_max_length") or math.inf
    return Pooling(mode, len(kinds) == 3, longest, settings.get("do_lower_case", False)) if mode in _MODES else None


def copy_pooling(folder: Path, out: Path) -> None:
    """Copy the settings of pooling, prompts and similarity; the length limit also if only the tokenizer has it."""
    files = [MODULES, _SETTINGS, "config_sentence_transformers.json"]
    files += [f"{module['path']}/config.json" for module in read_json(folder / MODULES) if module["path"]]
    for name in files:
        if (folder / name).is_file():
            (out / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(folder / name, out / name)
    if (longest := read_pooling(folder).longest) < 1e6:  # else unlimited
        settings = read_json(out / _SETTINGS) if (out / _SETTINGS).is_file() else {}
        write_json(out / _SETTINGS, {**settings, "max_seq_length": longest})
