"""One small corpus, its tasks and models, made once by the commands."""

import random

import pytest
import torch

from tests.contract import commands as cli

NAMES, VERBS = ("Anna", "Bob", "Carl", "Dora", "Emil", "Frida"), ("sees", "likes", "hears", "finds", "calls")
THINGS = ("the house", "a red car", "the old dog", "a small bird", "the blue sea", "an apple", "his long letter")
#: Of other scripts.
LINES = {
    "ar": "يقع البيت القديم بجانب النهر في المدينة منذ عام ١٨٨٥ وتراه آنا من البحر.",
    "zh": "老房子自1885年以来一直矗立在城市的河边，安娜从海上看到它。",
}
XNLI = ("sentence1", "sentence2", "gold_label")
PARSES = tuple(f"sentence{number}_{kind}" for kind in ("binary_parse", "parse") for number in (1, 2))
MNLI = ("index", "promptID", "pairID", "genre", *PARSES, "sentence1", "sentence2", "label1", "gold_label")
CLASSES = ("contradiction", "neutral", "entailment")
LANGUAGES = ("ar", "bg", "de", "el", "en", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh")
ROWS = 12  # of a test set
WORDS = {"a": "ein", "dog": "Hund", "man": "Mann", "sees": "sieht", "the": "der", "and": "und", "red": "rote"}


def sentence(draw):
    return f"{draw.choice(NAMES)} {draw.choice(VERBS)} {draw.choice(THINGS)}"


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """A text file of 150 documents; hardly any line comes twice."""
    draw, path = random.Random(0), tmp_path_factory.mktemp("text") / "text.txt"
    documents = []
    for _ in range(150):
        lines = [f"{sentence(draw)}, {sentence(draw)} {draw.randint(1, 99)} times." for _ in range(6)]
        documents.append("\n".join([*lines, f"{draw.choice([*LINES.values()])} {draw.randint(1, 999)}"]))
    path.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def data(text, tmp_path_factory):
    """The prepared corpus."""
    out = tmp_path_factory.mktemp("corpus") / "data"
    cli.tupe("prepare-corpus", text, out=out, options=("--vocab-size", 300, *cli.CORPUS))
    return out


@pytest.fixture(scope="session")
def pretrained(data, tmp_path_factory):
    """The folder of a pre-training of 40 updates by the script, and what it printed."""
    folder = tmp_path_factory.mktemp("pretrained") / "run"
    return folder, cli.pretrain(data, folder, "optimization.max_update=40").stdout


@pytest.fixture(scope="session")
def checkpoint(pretrained):
    return pretrained[0] / "checkpoint_last.pt"


@pytest.fixture(scope="session")
def other(data, tmp_path_factory):
    """A checkpoint of another run."""
    folder = tmp_path_factory.mktemp("other")
    cli.train("words", data, folder, "--max-update", 1)
    return folder / "checkpoint_last.pt"


def write_table(path, columns, rows, header):
    """A table of GLUE; columns that no row has are `-`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ["\t".join(row.get(column, "-") for column in columns) for row in rows]
    path.write_text("\n".join(["\t".join(columns)] * header + lines) + "\n", encoding="utf-8")


@pytest.fixture(scope="session")
def glue(data, tmp_path_factory):
    """CoLA, whose class is whether Anna is there, and XNLI, as the command prepares their downloads."""
    folder, draw = tmp_path_factory.mktemp("glue"), random.Random(1)
    for split, number in (("train", 64), ("dev", 24), ("test", ROWS)):
        texts = [f"{sentence(draw)} and {sentence(draw)} ." for _ in range(number)]
        rows = [{"label": str(int("Anna" in text)), "sentence": text} for text in texts]
        columns = ("index", "sentence") if split == "test" else ("source", "label", "mark", "sentence")
        write_table(folder / f"from/CoLA/{split}.tsv", columns, rows, header=split == "test")
    rows = [dict(zip(XNLI, (sentence(draw), sentence(draw), CLASSES[row % 3]))) for row in range(24)]
    write_table(folder / "from/MNLI/train.tsv", MNLI, rows, header=True)
    for file in ["dev-en", *(f"{kind}-{language}" for kind in ("dev", "test") for language in LANGUAGES)]:
        write_table(folder / f"from/XNLI/{file}.tsv", XNLI, rows[:ROWS], header=False)
    tasks = ("CoLA", "XNLI", "--partial", *cli.WORKERS)
    cli.tupe("prepare-glue", folder / "from", data, out=folder / "data", options=tasks)
    return folder / "data"


@pytest.fixture(scope="session")
def finetuned(checkpoint, glue, tmp_path_factory):
    """The folder of a fine-tuning on CoLA, and what it printed."""
    out = tmp_path_factory.mktemp("finetuned") / "run"
    return out, cli.finetune("CoLA", checkpoint, glue, out, "optimization.lr=[0.01]").stdout


@pytest.fixture(scope="session")
def parallel(tmp_path_factory):
    """Prepared parallel text, each word with its translation."""
    folder, draw = tmp_path_factory.mktemp("parallel"), random.Random(0)
    for split, number in (("train", 200), ("valid", 8), ("test", ROWS)):
        source = [draw.choices([*WORDS], k=draw.randrange(2, 7)) for _ in range(number)]
        (folder / f"{split}.en").write_text("".join(" ".join(line) + "\n" for line in source))
        (folder / f"{split}.de").write_text("".join(" ".join(map(WORDS.get, line)) + "\n" for line in source))
    files = [f"--{split}={folder}/{split}" for split in ("train", "valid", "test")]
    cli.tupe("prepare-translation", "en", "de", out=folder / "data", options=(*files, "--vocab-size=60", *cli.WORKERS))
    return folder / "data"


@pytest.fixture(scope="session")
def translator(parallel, tmp_path_factory):
    """A checkpoint of a translation model."""
    out = tmp_path_factory.mktemp("translator")
    cli.train("translation", parallel, out, cli.PADDED_ON_THE_RIGHT, "--max-update", 4)
    return out / "checkpoint_last.pt"


@pytest.fixture(scope="session")
def bert(tmp_path_factory):
    """A small BERT of Transformers that nobody trained, with its tokenizer: the folder and the model."""
    transformers = pytest.importorskip("transformers")
    folder, letters = tmp_path_factory.mktemp("bert"), "abcdefghijklmnopqrstuvwxyz."
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    config = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=40, **sizes)
    model = transformers.BertForMaskedLM(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder)
    return folder, model
