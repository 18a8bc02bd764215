"""Folders of small models that nobody trained, as fairseq releases them and Transformers saves them."""

import json
from argparse import Namespace
from collections import Counter
from types import SimpleNamespace

import pytest
import sentencepiece
import torch
from fairseq.data import Dictionary

from tests.conftest import write
from tupe.models.summary import dictionary_of_size

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


@pytest.fixture(scope="session")
def bytes_of_text():
    """A byte-level BPE of some text: its pieces by their numbers, and its merges."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=420, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(LINES * 3, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in model["merges"]]
    return model["vocab"], merges, tokenizer


@pytest.fixture(scope="session")
def pieces(tmp_path_factory):
    """A SentencePiece model laid out as XLM-R's and CamemBERT's."""
    prefix = tmp_path_factory.mktemp("pieces") / "model"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 20), model_prefix=str(prefix), vocab_size=220, model_type="unigram",
        minloglevel=2, hard_vocab_limit=False,
    )  # fmt: skip
    return prefix.with_suffix(".model")


@pytest.fixture(scope="session")
def deberta_pieces(tmp_path_factory):
    """A SentencePiece model as DeBERTa's third version has it: bytes of what no piece has, and `[MASK]` not there."""
    prefix = tmp_path_factory.mktemp("deberta_pieces") / "spm"
    special = {"pad": "[PAD]", "bos": "[CLS]", "eos": "[SEP]", "unk": "[UNK]"}
    options = {f"{name}_id": number for number, name in enumerate(special)}
    options |= {f"{name}_piece": piece for name, piece in special.items()}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(LINES * 20), model_prefix=str(prefix), vocab_size=476, model_type="unigram",
        minloglevel=2, hard_vocab_limit=False, byte_fallback=True, **options,
    )  # fmt: skip
    return prefix.with_suffix(".model")


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


def fairseq_roberta(symbols, positions=POSITIONS, **options):
    """fairseq's model and its options."""
    from fairseq.models.roberta.model import RobertaModel, base_architecture

    args = Namespace(
        encoder_layers=2, encoder_embed_dim=16, encoder_ffn_embed_dim=24, encoder_attention_heads=2,
        max_positions=positions, tokens_per_sample=positions, data="", arch="roberta_base", **options,
    )  # fmt: skip
    base_architecture(args)
    return fill(RobertaModel.build_model(args, SimpleNamespace(source_dictionary=dictionary_of_size(symbols)))), args


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
    """`released()`: a folder as fairseq's `roberta.base`, the tokenizer beside it, and its model."""
    vocabulary, merges, tokenizer = bytes_of_text

    def make(change=lambda state: state, heads=(), **options):
        folder = tmp_path_factory.mktemp("roberta.base")
        numbers = {**vocabulary, "<|endoftext|>": len(vocabulary)}
        write_json(folder / "encoder.json", numbers)
        (folder / "vocab.bpe").write_text("#version: 0.2\n" + "".join(f"{m}\n" for m in merges), encoding="utf-8")
        counts = Counter(str(number) for line in LINES for number in tokenizer.encode(line).ids)
        dictionary = Dictionary()
        for symbol in [*(s for s, _ in counts.most_common()), *(str(n) for n in numbers.values())]:
            dictionary.add_symbol(symbol, counts.get(symbol, 0))
        dictionary.pad_to_multiple_(8)
        dictionary.save(str(folder / "dict.txt"))
        model, args = fairseq_roberta(len(dictionary) + 1, **options)
        for head, classes in heads:
            model.register_classification_head(head, num_classes=classes)
            fill(model)
        torch.save({"args": args, "model": change(model.state_dict())}, folder / "model.pt")
        return folder, model

    return make


def save_word_piece(folder, words, lower=True):
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    write_json(folder / "tokenizer_config.json", {"do_lower_case": lower, "tokenizer_class": "BertTokenizer"})


@pytest.fixture(scope="session")
def saved(bytes_of_text, pieces, deberta_pieces, words, tmp_path_factory):
    """`saved("bert")`: a folder as `save_pretrained` writes it, with a tokenizer, and its model."""
    transformers = pytest.importorskip("transformers")

    def make(kind, head="ForMaskedLM", base=False, **fields):
        folder = tmp_path_factory.mktemp(kind)
        sizes, special = {**SIZES, "max_position_embeddings": POSITIONS}, {"pad_token_id": 1, "bos_token_id": 0}
        if kind in ("roberta", "roberta-prelayernorm", "data2vec-text"):
            vocabulary, merges, _ = bytes_of_text
            symbols = ["<s>", "<pad>", "</s>", "<unk>", *sorted(vocabulary, key=vocabulary.get), "<mask>"]
            write_json(folder / "vocab.json", {symbol: number for number, symbol in enumerate(symbols)})
            text = "#version: 0.2\n" + "".join(f"{merge}\n" for merge in merges)
            (folder / "merges.txt").write_text(text, encoding="utf-8")
        elif kind in ("xlm-roberta", "camembert"):
            number = sentencepiece.SentencePieceProcessor(model_file=str(pieces)).get_piece_size()
            symbols = range(number + (5 if kind == "camembert" else 2))
            (folder / "sentencepiece.bpe.model").write_bytes(pieces.read_bytes())
        elif kind == "deberta-v2":
            symbols = range(sentencepiece.SentencePieceProcessor(model_file=str(deberta_pieces)).get_piece_size() + 1)
            special = {"pad_token_id": 0}
            (folder / "spm.model").write_bytes(deberta_pieces.read_bytes())
            write_json(folder / "tokenizer_config.json", {"do_lower_case": False, "vocab_type": "spm"})
        elif kind == "mpnet":
            rest = [word for word in words if word not in ("[PAD]", "[CLS]", "[SEP]", "[MASK]")]
            symbols = ["<s>", "<pad>", "</s>", "<unk>", *rest, "<mask>"]
            save_word_piece(folder, symbols)
        else:
            symbols, special = words, {"pad_token_id": 0}
            save_word_piece(folder, symbols)
        if kind in ("roberta", "roberta-prelayernorm", "data2vec-text", "xlm-roberta", "camembert", "mpnet"):
            sizes["max_position_embeddings"] += 2
        if kind == "distilbert":
            sizes = {"n_layers": 2, "dim": 16, "n_heads": 2, "hidden_dim": 24, "max_position_embeddings": POSITIONS}
        config = transformers.CONFIG_MAPPING[kind](**{"vocab_size": len(symbols), **sizes, **special, **fields})
        auto = getattr(transformers, f"AutoModel{head}")
        model = fill(auto.from_config(config))
        (model.base_model if base else model).save_pretrained(folder)
        return folder, model.base_model if base else model

    return make


def write_glue(folder):
    """CoLA and RTE with few rows."""
    lines = ["\t".join(["a", str(row % 2), "*", LINES[row % 4]]) for row in range(16)]
    for split in ("train", "dev"):
        write(folder / f"CoLA/{split}.tsv", lines)
    last = "4\t two  spaces and\u00a0another "
    write(folder / "CoLA/test.tsv", ["index\tsentence", *(f"{row}\t{LINES[row % 4]}" for row in range(4)), last])
    head, label = "index\tsentence1\tsentence2", ("entailment", "not_entailment")
    pairs = [f"{row}\t{LINES[row % 4]}\t{LINES[(row + 1) % 4]}\t{label[row % 2]}" for row in range(16)]
    for split in ("train", "dev"):
        write(folder / f"RTE/{split}.tsv", [f"{head}\tlabel", *pairs])
    write(folder / "RTE/test.tsv", [head, *(pair.rpartition("\t")[0] for pair in pairs)])
    return folder
