"""Folders of small models that nobody trained, as fairseq releases them and Transformers saves them."""

import json
from argparse import Namespace
from types import SimpleNamespace

import pytest
import sentencepiece
import torch
from fairseq.data import Dictionary
from fairseq.models.roberta.model import RobertaModel, base_architecture

from tests.conftest import write
from tupe.models import TupeModel

LINES = [
    "The old house stands beside the river in New York since 1885 and Anna sees it from the sea.",
    "Where was she born? Marie Curie was born in Warsaw, in 1867.",
    "The capital of France is a city on the Seine, and Bob can't find his naïve façade.",
    "Le camembert est délicieux, et l'été arrive : « déjà vu ».",
    "老房子自1885年以来一直矗立在城市的河边。",
]
#: What no tokenizer of ours may trip over: special symbols, accents apart, joiners, other white space, no text.
HARD = [
    "<s> </s> <mask> <pad> <unk>",
    "[CLS] [SEP] [MASK] [UNK]",
    "<|endoftext|> madeupword0000",
    "e\u0301 vs \u00e9",
    "emoji 😀👩\u200d👩\u200d👧 ok",
    "１２３ Ⅷ العربية ไทย हिन्दी",
    "a" * 300,
    "don’t “quote”—dash…",
    "tab\there  two",
    "\u00a0nbsp\u00a0 \u200b zero x\u2028y",
    "",
]
SIZES = {"num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24}
POSITIONS = 60
LIKE_ROBERTA = ("roberta", "roberta-prelayernorm", "data2vec-text")


def fill(model):
    """Weights away from their initial values, so that one in a wrong place shows; returns the model."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            shift = 1.0 if parameter.ndim == 1 and "norm" in name.lower() and name.endswith("weight") else 0.0
            parameter.copy_(shift + 0.2 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def write_json(path, content):
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


def opened(out, data=None):
    return TupeModel.from_pretrained(str(out), "checkpoint.pt", str((data or out).resolve())).eval()


def sentence_piece(prefix, size, **options):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 20), model_prefix=str(prefix), vocab_size=size, model_type="unigram",
        minloglevel=2, hard_vocab_limit=False, **options,
    )  # fmt: skip
    return prefix.with_suffix(".model")


@pytest.fixture(scope="session")
def pieces(tmp_path_factory):
    """A SentencePiece model laid out as XLM-R's and CamemBERT's."""
    return sentence_piece(tmp_path_factory.mktemp("pieces") / "model", 220)


@pytest.fixture(scope="session")
def deberta_pieces(tmp_path_factory):
    """A SentencePiece model as DeBERTa's third version has it: bytes of what no piece has, and `[MASK]` not there."""
    options = {"byte_fallback": True}
    for number, (name, piece) in enumerate({"pad": "[PAD]", "bos": "[CLS]", "eos": "[SEP]", "unk": "[UNK]"}.items()):
        options |= {f"{name}_id": number, f"{name}_piece": piece}
    return sentence_piece(tmp_path_factory.mktemp("deberta_pieces") / "spm", 476, **options)


@pytest.fixture(scope="session")
def bytes_of_text():
    """A byte-level BPE of some text: its pieces in order, and the text of its merges."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=420, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(LINES * 3, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    merges = "".join(f"{pair if isinstance(pair, str) else ' '.join(pair)}\n" for pair in model["merges"])
    return sorted(model["vocab"], key=model["vocab"].get), f"#version: 0.2\n{merges}"


@pytest.fixture(scope="session")
def words():
    """The symbols of a WordPiece vocabulary, those of BERT among them at odd places."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = tokenizers.trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(LINES * 3, trainer)
    vocabulary = tokenizer.get_vocab()
    return sorted(vocabulary, key=vocabulary.get)


def in_2019(state):
    """The names of 2019, in which q, k and v were one."""
    old = {}
    for name, tensor in state.items():
        then = name.replace("encoder.sentence", "decoder.sentence").replace("encoder.lm_head", "decoder.lm_head")
        then = then.replace("layernorm_embedding", "emb_layer_norm")
        if ".q_proj." in name:
            parts = [state[name.replace("q_proj", part)] for part in ("q_proj", "k_proj", "v_proj")]
            old[then.replace("q_proj.", "in_proj_")] = torch.cat(parts)
        elif ".k_proj." not in name and ".v_proj." not in name:
            old[then] = tensor
    return old


@pytest.fixture(scope="session")
def released(bytes_of_text, tmp_path_factory):
    """`released()` makes a folder like fairseq's `roberta.base` with its tokenizer, and returns it with the model.

    `lines` replace those of the dictionary.
    """

    def make(change=lambda state: state, heads=(), lines=None, **options):
        folder, (symbols, merges) = tmp_path_factory.mktemp("roberta.base"), bytes_of_text
        write_json(folder / "encoder.json", {s: number for number, s in enumerate([*symbols, "<|endoftext|>"])})
        (folder / "vocab.bpe").write_text(merges, encoding="utf-8")
        write(folder / "dict.txt", lines or [f"{number} 1" for number in range(len(symbols), -1, -1)])
        dictionary = Dictionary.load(str(folder / "dict.txt"))
        dictionary.add_symbol("<mask>")
        args = Namespace(
            encoder_layers=2, encoder_embed_dim=16, encoder_ffn_embed_dim=24, encoder_attention_heads=2,
            max_positions=POSITIONS, tokens_per_sample=POSITIONS, data="", arch="roberta_base", **options,
        )  # fmt: skip
        base_architecture(args)
        model = fill(RobertaModel.build_model(args, SimpleNamespace(source_dictionary=dictionary)))
        for head, classes in heads:
            model.register_classification_head(head, num_classes=classes)
            fill(model)
        settings = {"args": None, "cfg": {"model": args}} if heads else {"args": args}  # of today, or of 2019
        torch.save({**settings, "model": change(model.state_dict())}, folder / "model.pt")
        return folder, model

    return make


@pytest.fixture(scope="session")
def saved(bytes_of_text, pieces, deberta_pieces, words, tmp_path_factory):
    """`saved("bert")`: a folder as `save_pretrained` writes it, with a tokenizer, and its model."""
    transformers = pytest.importorskip("transformers")

    def write_vocabulary(folder, kind):
        """Return the number of symbols."""
        if kind in LIKE_ROBERTA:
            symbols = ["<s>", "<pad>", "</s>", "<unk>", *bytes_of_text[0], "<mask>"]
            write_json(folder / "vocab.json", {symbol: number for number, symbol in enumerate(symbols)})
            (folder / "merges.txt").write_text(bytes_of_text[1], encoding="utf-8")
            return len(symbols)
        if kind == "modernbert":
            from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

            special = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "cls", "sep", "pad", "mask")}
            number = {symbol: number for number, symbol in enumerate([*bytes_of_text[0], *special.values()])}
            merges = [tuple(line.split(" ")) for line in bytes_of_text[1].splitlines()[1:]]
            tokenizer = Tokenizer(models.BPE(number, merges))
            tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(False), decoders.ByteLevel()
            tokenizer.post_processor = processors.TemplateProcessing(
                "[CLS] $A [SEP]", "[CLS] $A [SEP] $B [SEP]", [(name, number[name]) for name in ("[CLS]", "[SEP]")]
            )
            transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
            return len(number)
        if kind in ("xlm-roberta", "camembert", "deberta-v2"):
            model, more = (deberta_pieces, 1) if kind == "deberta-v2" else (pieces, 5 if kind == "camembert" else 2)
            name = "spm.model" if kind == "deberta-v2" else "sentencepiece.bpe.model"
            (folder / name).write_bytes(model.read_bytes())
            return len(sentencepiece.SentencePieceProcessor(model_file=str(model))) + more
        symbols = words
        if kind == "mpnet":
            rest = [word for word in words if word not in ("[PAD]", "[CLS]", "[SEP]", "[MASK]")]
            symbols = ["<s>", "<pad>", "</s>", "<unk>", *rest, "<mask>"]
        write(folder / "vocab.txt", symbols)
        tokenizer = {"mpnet": "MPNetTokenizer"}.get(kind, "BertTokenizer")
        write_json(folder / "tokenizer_config.json", {"do_lower_case": True, "tokenizer_class": tokenizer})
        return len(symbols)

    def make(kind, head="ForMaskedLM", base=False, **fields):
        folder = tmp_path_factory.mktemp(kind)
        sizes = {"n_layers": 2, "dim": 16, "n_heads": 2, "hidden_dim": 24} if kind == "distilbert" else SIZES
        from_two = kind in (*LIKE_ROBERTA, "xlm-roberta", "camembert", "mpnet")
        fields = {"max_position_embeddings": POSITIONS + 2 * from_two, "pad_token_id": int(from_two), **fields}
        fields = {"vocab_size": write_vocabulary(folder, kind), **sizes, **fields}
        config = transformers.CONFIG_MAPPING[kind](**fields)
        model = fill(getattr(transformers, f"AutoModel{head}").from_config(config))
        model = model.base_model if base else model
        model.save_pretrained(folder)
        return folder, model

    return make
