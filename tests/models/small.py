"""A named model of two layers, and sequences for it; also for processes that have no fixtures."""

from types import SimpleNamespace

import torch

from tests.samples import dictionary_of
from tupe.models.config import named
from tupe.models.electra import ElectraModel
from tupe.models.tupe import TupeModel
from tupe.systems import ELECTRAS, SYSTEMS

WORDS = 40


def _choices(system):
    """Return the choice that a system makes of each field; of a number, whether it is used."""
    return {(name, value if isinstance(value, str) else bool(value)) for name, value in SYSTEMS[system].items()}


def _kinds():
    found, left = [], set().union(*map(_choices, SYSTEMS))
    while left:
        found.append(max(SYSTEMS, key=lambda system: len(_choices(system) & left)))
        left -= _choices(found[-1])
    return sorted(found, key=list(SYSTEMS).index)


#: Systems among which is every choice of every field: for what asks only which modules a model is made of. A new
#: choice brings the system that has it.
KINDS = _kinds()


def small_dictionary():
    return dictionary_of(*(f"word{index}" for index in range(WORDS)), "<mask>")


def small_model(name, dictionary, max_positions=24, **fields):
    torch.manual_seed(0)
    small = {"encoder_layers": 2, "encoder_embed_dim": 24, "encoder_ffn_embed_dim": 48, "encoder_attention_heads": 3}
    task = SimpleNamespace(source_dictionary=dictionary, max_positions=lambda: max_positions)
    model_class = TupeModel
    if name in ELECTRAS:
        model_class, small["generator_size"] = ElectraModel, 2 / 3  # two heads of three
        small["linformer_k"] = min(named(name).linformer_k, 16)
    model = model_class.build_model(named(name, **{**small, **fields}), task)
    for parameter in model.parameters():
        if parameter.ndim > 1:  # far from the tiny initial values, so that a wrong term shows
            torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def small_batch(dictionary, lengths, seed=1):
    """Sequences of those lengths, `<s> ... </s>`, padded on the right."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(dictionary.nspecial, WORDS, (len(lengths), max(lengths)), generator=generator)
    tokens[:, 0] = dictionary.bos()
    for row, length in zip(tokens, lengths):
        row[length - 1] = dictionary.eos()
        row[length:] = dictionary.pad()
    return tokens
