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
BY_BACKEND = {f"tupe_a_{backend}": ("tupe_a", backend) for backend in ("triton", "factors", "sdpa")}
OURS = (*SYSTEMS, *ALIASES, *ELECTRAS, "tupe_compiled", *BY_BACKEND)
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
    compiled = args.rival.endswith("_compiled")
    config = CONFIGS[f"{system}_{args.size}"](max_positions=args.length, attention_backend=backend, compile=compiled)
    model = ElectraModel if args.rival in ELECTRAS else TupeModel
    return model.build_model(config, SimpleNamespace(source_dictionary=dictionary))


def electra_loss(model: nn.Module, dictionary: Any, tokens: Tensor, masked: Tensor) -> Tensor:
    """The loss of replaced-token detection, with its words drawn, by its criterion."""
    from tupe.criterions.electra import TupeElectraCriterion, TupeElectraCriterionConfig

    cfg = SimpleNamespace(mask_prob=0.15, seed=1)
    task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary, cfg=cfg)
    target = torch.where(masked, tokens, dictionary.pad())
    source = tokens.masked_fill(masked, dictionary.index("<mask>"))
    sample = {"id": torch.arange(len(tokens)), "net_input": {"src_tokens": source}, "target": target}
    sample.update(ntokens=tokens.numel(), nsentences=len(tokens))
    loss, size, _ = TupeElectraCriterion(TupeElectraCriterionConfig(), task)(model, sample)
    return loss / size


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
    """The model, the dictionary, and the class of its optimizer."""
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
    """A step of the rival in `args.mode`."""
    torch.manual_seed(0)
    model, dictionary, optimizer_class = build(args)
    model.to(args.device, getattr(torch, args.dtype))
    tokens = torch.randint(dictionary.nspecial, len(dictionary), (args.batch, args.length))
    tokens[:, 0], tokens[:, -1] = dictionary.bos(), dictionary.eos()
    if args.pairs:
        tokens[:, args.length // 2 : args.length // 2 + 2] = dictionary.eos()
    masked = torch.zeros(tokens.numel(), dtype=torch.bool)
    masked[torch.randperm(tokens.numel())[: masked_tokens(args)]] = True
    tokens, masked = tokens.to(args.device), masked.view_as(tokens).to(args.device)
    ours = args.rival in OURS
    hint = {"num_tokens": tokens.numel()} if ours else {}

    def inference() -> None:
        with torch.no_grad():
            model(tokens, features_only=True, **hint)

    if args.mode == "inference":
        model.eval()
        return inference
    model.train()
    optimizer = optimizer_class(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01)

    def training() -> None:
        if args.rival in ELECTRAS:
            electra_loss(model, dictionary, tokens, masked).backward()
        else:
            masked_loss().backward()
        optimizer.step()
        optimizer.zero_grad()

    def masked_loss() -> Tensor:
        where = masked.flatten().nonzero().flatten() if ours else masked  # as the criterion of each does
        target = tokens.flatten()[where if ours else where.flatten()]
        logits = model(tokens, masked_tokens=where, **hint)[0]
        return F.cross_entropy(logits.float(), target)

    return training


def product_step(args: Namespace) -> Callable[[], None]:
    """`PRODUCTS` square matrix products."""
    from tupe.layers import linear

    a, b = (torch.randn(args.product, args.product, device=args.device, dtype=getattr(torch, args.dtype)) for _ in "ab")

    @torch.no_grad()
    def products() -> None:
        for _ in range(PRODUCTS):
            linear(a, b)  # by the library that is faster here

    return products
