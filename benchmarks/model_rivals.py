"""The rivals of `model.py`: how each is built, and its step."""

import importlib
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tupe.systems import ALIASES, DESCRIPTIONS, ELECTRA, SYSTEMS

ELECTRAS = tuple(f"{ELECTRA}{name}" for name in (*SYSTEMS, *ALIASES))  # generator and discriminator
#: One model by several backends of its attention: rival -> (system, backend).
BY_BACKEND = {f"tupe_a_{backend}": ("tupe_a", backend) for backend in ("triton", "factors", "sdpa", "flex")}
OURS = (*SYSTEMS, *ALIASES, *ELECTRAS, "tupe_compiled", *BY_BACKEND)
FLEX = "tupe_a_flex"
AT_INFERENCE = {"tupe_compiled": "tupe", "roberta_fused": "roberta"}  # they differ in training alone
_PLAIN = {name: name[len(ELECTRA) :] for name in ELECTRAS}
PRODUCTS = 10  # in a step of the matrix product
NAMES = {
    **{name: f"{DESCRIPTIONS[ALIASES.get(name, name)][0]}, ours" for name in (*SYSTEMS, *ALIASES)},
    **{name: f"{DESCRIPTIONS[ALIASES.get(plain, plain)][0]}, ours, with a generator" for name, plain in _PLAIN.items()},
    "tupe_compiled": "TUPE-R, ours, --compile",
    **{rival: f"TUPE-A, ours, {backend}" for rival, (_, backend) in BY_BACKEND.items()},
    "roberta": "RoBERTa, fairseq's",
    "roberta_fused": "RoBERTa, fairseq's, fused_adamw",
    "authors": "TUPE-R, the authors'",
}


def build_ours(args: Namespace, dictionary: Any) -> nn.Module:
    from tupe.models import ElectraModel, TupeModel
    from tupe.models.config import CONFIGS

    system, backend = BY_BACKEND.get(args.rival, (args.rival.removesuffix("_compiled"), args.backend))
    if backend == "flex":  # no backend of this package: it takes the place of SDPA in this process
        from attention_rivals import flex

        from tupe.attention.biased import BACKENDS

        BACKENDS["sdpa"], backend = torch.compile(flex, dynamic=False), "sdpa"
    fields = {"max_positions": args.length, "attention_backend": backend, "compile": args.rival.endswith("_compiled")}
    if args.attention_dropout is not None:
        fields["attention_dropout"] = args.attention_dropout
    config = CONFIGS[f"{system}_{args.size}"](**fields)
    model = ElectraModel if args.rival in ELECTRAS else TupeModel
    return model.build_model(config, SimpleNamespace(source_dictionary=dictionary))


def electra_loss(args: Namespace, model: nn.Module, dictionary: Any, tokens: Tensor, masked: Tensor) -> Callable:
    """Return `loss()` of replaced-token detection, with words drawn by its criterion; both tensors are on the CPU.

    The batch has all that the task's collater finds out on the CPU, so that nothing is asked of the device.
    """
    from tupe.criterions.electra import TupeElectraCriterion, TupeElectraCriterionConfig
    from tupe.data.batches import masked_positions

    cfg = SimpleNamespace(mask_prob=0.15, seed=1)
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary, cfg=cfg)
    criterion = TupeElectraCriterion(TupeElectraCriterionConfig(), task)
    target = torch.where(masked, tokens, dictionary.pad())
    source = tokens.masked_fill(masked, dictionary.index("<mask>"))
    _, words = masked_positions(target, dictionary)
    sample = {
        "ids": list(range(len(tokens))),
        "net_input": {"src_tokens": source.to(args.device)},
        "target": target.to(args.device),
        "masked_words": words.to(args.device),
        "pairs": args.pairs,
        "ntokens": tokens.numel(),
        "nsentences": len(tokens),
    }

    def loss() -> Tensor:
        summed, size, _ = criterion(model, sample)
        return summed / size

    return loss


def build_roberta(args: Namespace, dictionary: Any) -> nn.Module:
    from fairseq.models.roberta import RobertaModel
    from fairseq.models.roberta.model import base_architecture

    fields = Namespace(**args.shape, max_positions=args.length, tokens_per_sample=args.length)
    base_architecture(fields)
    return RobertaModel.build_model(fields, SimpleNamespace(source_dictionary=dictionary))


def build_authors(args: Namespace, dictionary: Any) -> nn.Module:
    from fairseq.models.bert.model import BertModel

    fields = Namespace(**args.shape, max_positions=args.length, rel_pos=True, embedding_normalize=True)
    return BertModel.build_model(fields, SimpleNamespace(source_dictionary=dictionary))


def use_authors_fairseq(path: str) -> None:
    import numpy

    for name, kind in (("float", float), ("int", int), ("bool", bool)):
        if name not in vars(numpy):
            setattr(numpy, name, kind)
    sys.path.insert(0, path)
    fairseq = importlib.import_module("fairseq")
    if Path(path).resolve() not in Path(fairseq.__file__).resolve().parents:
        raise SystemExit(f"{path} is no checkout of the authors' code: there is no fairseq/ in it")


def build(args: Namespace) -> tuple[nn.Module, Any, Callable[..., torch.optim.Optimizer]]:
    """Return the model, the dictionary, and the class of its optimizer."""
    if args.rival == "authors":
        use_authors_fairseq(args.authors)
    from fairseq.data import Dictionary
    from fairseq.optim.adam import Adam

    dictionary = Dictionary()
    for index in range(args.vocab_size - len(dictionary) - 1):
        dictionary.add_symbol(f"word{index}")
    dictionary.add_symbol("<mask>")
    if args.rival == "authors":
        return build_authors(args, dictionary), dictionary, Adam
    from tupe.optim.fused_adamw import DecoupledAdam

    if args.rival in OURS:
        return build_ours(args, dictionary), dictionary, DecoupledAdam
    return build_roberta(args, dictionary), dictionary, DecoupledAdam if args.rival == "roberta_fused" else Adam


def masked_tokens(args: Namespace) -> int:
    return max(1, args.batch * args.length * 15 // 100)


def model_step(args: Namespace) -> Callable[[], None]:
    """Return the rival's step in `args.mode`."""
    torch.manual_seed(0)
    model, dictionary, optimizer_class = build(args)
    model.to(args.device, getattr(torch, args.dtype))
    tokens = torch.randint(dictionary.nspecial, len(dictionary), (args.batch, args.length))
    tokens[:, 0], tokens[:, -1] = dictionary.bos(), dictionary.eos()
    if args.pairs:
        tokens[:, args.length // 2 : args.length // 2 + 2] = dictionary.eos()
    masked = torch.zeros(tokens.numel(), dtype=torch.bool)
    masked[torch.randperm(tokens.numel())[: masked_tokens(args)]] = True
    masked = masked.view_as(tokens)
    ours = args.rival in OURS
    if args.rival in ELECTRAS:
        loss_of_electra = electra_loss(args, model, dictionary, tokens, masked)
    where = masked.flatten().nonzero().flatten().to(args.device)  # a batch of ours brings it
    tokens, masked = tokens.to(args.device), masked.to(args.device)
    hint = {"num_tokens": tokens.numel(), "pairs": args.pairs} if ours else {}

    def inference() -> None:
        with torch.no_grad():
            model(tokens, features_only=True, **hint)

    if args.mode == "inference":
        model.eval()
        return inference

    def masked_loss() -> Tensor:
        target = tokens.flatten()[where if ours else masked.flatten()]  # as the criterion of each does
        logits = model(tokens, masked_tokens=where if ours else masked, **hint)[0]
        return F.cross_entropy(logits.float(), target)

    loss = loss_of_electra if args.rival in ELECTRAS else masked_loss
    model.train()
    optimizer = optimizer_class(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01)

    def training() -> None:
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()

    return training


def product_step(args: Namespace) -> Callable[[], None]:
    """Return a step of `PRODUCTS` square matrix products."""
    from tupe.layers import linear

    a, b = (torch.randn(args.product, args.product, device=args.device, dtype=getattr(torch, args.dtype)) for _ in "ab")

    @torch.no_grad()
    def products() -> None:
        for _ in range(PRODUCTS):
            linear(a, b)  # by the library that is faster here

    return products
