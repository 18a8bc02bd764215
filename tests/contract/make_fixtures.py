"""Run at the commit 69687301, and at no other: `python -m tests.contract.make_fixtures` wrote `fixtures/` there."""

import json
import random
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import torch
import transformers

from tests.contract.aliases import ROOT, build, load, train, tupe_command
from tests.contract.aliases import WORDS as WORDS_OF_TEXT
from tests.contract.data import FIXTURES, write_data
from tests.contract.test_equations import TWO, large
from tests.contract.test_export import KINDS
from tests.contract.test_export import NAMES as EXPORTED
from tests.contract.test_loss import OPTIONS, SIZE, WORDS, loss_after_200_updates, resumed
from tests.contract.test_old_checkpoints import IMPORTED, NAMES, loaded, outputs
from tests.contract.test_state_dicts import MODELS, shapes
from tupe.checkpoints.fairseq_checkpoint import write_checkpoint
from tupe.data.corpus.vocabulary import MASK
from tupe.tasks.question_answering import TupeQuestionAnsweringConfig

FIELDS = {"encoder_layers": 2, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 32, "encoder_attention_heads": 2}
EXPORTS = {"segments": ("tupe_r", {"segment": "per_head"}), "half": ("rope", {"rotary_dims": 4, "rotary_base": 50.0}),
           "prenorm": ("bert_ad", {"encoder_normalize_before": True, "sharing": "none"})}  # fmt: skip
THREE = ("--max-update", 3, "--warmup-updates", 2, "--lr", 0.003)
BARE = "--no-save-optimizer-state"
TRANSLATION = ("--task", "translation", "-s", "en", "-t", "de", "--left-pad-source", "--share-all-embeddings",
               "--max-source-positions", 24, "--max-target-positions", 24, BARE)  # fmt: skip
CLASSES = ("--task", "tupe_sentence_prediction", "--num-classes", 3, "--max-positions", 32, "--init-token", 0, BARE)
#: checkpoint -> flags of its training.
TRAINED = {
    "pretrained": WORDS,
    "window": (*WORDS, BARE, "--arch", "rope_tiny", "--attention-window", 3),
    "deberta": (*WORDS, BARE, "--arch", "deberta_tiny", "--relative-buckets", 4, "--relative-max-distance", 9),
    "linformer": (*WORDS, BARE, "--arch", "diet_abs_lin_tiny", "--linformer-k", 5),
    "shaw": (*WORDS, BARE, "--arch", "shaw_tiny", "--relative-max-distance", 4),
    "cross": (*WORDS, BARE, "--arch", "bert_ad_tiny", "--encoder-normalize-before", "--sharing", "none"),
    "electra": (*WORDS, "--arch", "electra_tupe_r_tiny", "--criterion", "tupe_electra"),
    "translator": (*TRANSLATION, "--arch", "seq2seq_tupe_r_tiny", "--cross-position", "untied"),
    "release": (*WORDS, BARE, "--reset", "release", "--untied-projection-bias"),
    "fine_tuned": (*CLASSES, "--arch", "tupe_tiny", "--criterion", "tupe_sentence_prediction",
                   "--finetune-from-model", "tests/contract/fixtures/checkpoints/pretrained.pt"),
}  # fmt: skip
HYDRA = """fairseq-hydra-train --config-dir configs/pretraining --config-name base model._name=diet_rel_tiny \
  task.tokens_per_sample=32 dataset.batch_size=8 optimization.update_freq=[1] optimization.max_update=3 \
  lr_scheduler.warmup_updates=2 common.cpu=true common.fp16=false checkpoint.no_save_optimizer_state=true \
  dataset.num_workers=0"""


def write_text():
    draw = random.Random(0).choice
    names, verbs, words, links = WORDS_OF_TEXT[:8], WORDS_OF_TEXT[8:14], WORDS_OF_TEXT[16:28], WORDS_OF_TEXT[28:31]

    def thing():
        return f"{draw(['the', 'a'])} {draw(words[:5])} {draw(words[5:])}"

    lines = [f"{draw(names)} {draw(verbs)} {thing()} {draw(links)} {thing()} .\n" for _ in range(400)]
    (FIXTURES / "text.txt").write_text("".join(lines))


def write_bert(folder):
    """A random BERT of Transformers, its logits there in our order of words, and the import."""
    words = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(40))]
    folder.mkdir()
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words))
    tokenizer = {"do_lower_case": True, "tokenizer_class": "BertTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    names = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "max_position_embeddings")
    config = transformers.BertConfig(vocab_size=len(words), **dict(zip(names, (2, 16, 2, 32, 24))))
    model = transformers.BertForMaskedLM(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0.1, std=0.2)
    model.save_pretrained(folder)
    out = IMPORTED
    shutil.rmtree(out, ignore_errors=True)
    assert tupe_command("import", folder, out) == 0
    (out / "checkpoint.pt").replace(FIXTURES / "checkpoints/imported.pt")
    for extra in {*out.iterdir()} - {out / "dict.txt"}:
        extra.unlink()
    ours = ["<s>", "<pad>", "</s>", "<unk>", *(line.split()[0] for line in (out / "dict.txt").open()), MASK]
    special = {"<s>": "[CLS]", "<pad>": "[PAD]", "</s>": "[SEP]", "<unk>": "[UNK]", MASK: "[MASK]"}
    rows = [words.index(special.get(word, word)) for word in ours]
    tokens = torch.tensor([[0, *range(6, 16), 2]])
    theirs = torch.tensor(rows)[tokens]
    with torch.no_grad():
        return {"imported_from/tokens": tokens, "imported_from/words": model(theirs).logits[..., rows]}


def write_shapes():
    content = {}
    for family, models in MODELS.items():
        found = {name: shapes(build(arch, **fields)) for name, (arch, fields) in models.items()}
        common = set.intersection(*({(name, *shape) for name, shape in each.items()} for each in found.values()))
        own = {name: {n: s for n, s in each.items() if (n, *s) not in common} for name, each in found.items()}
        content[family] = {"common": {name: shape for name, *shape in sorted(common)}, "own": own}
    (FIXTURES / "state_dicts.json").write_text(json.dumps(content, separators=(",", ":")).replace("},", "},\n") + "\n")


def export(name, folder, data):
    """A large random model of a system, or a fine-tuned checkpoint, as `tupe export` writes it; what it says."""
    checkpoint = FIXTURES / f"checkpoints/{name}.pt"
    if name not in KINDS:
        system, fields = EXPORTS.get(name, (name, TWO.get(name, {})))
        checkpoint = folder / f"{name}.pt"
        write_checkpoint(checkpoint, large(build(f"{system}_tiny", **{**FIELDS, **fields})).float(), f"{system}_tiny")
    assert tupe_command("export", checkpoint, data, folder / "exported" / name, "--no-tokenizer") == 0
    return outputs(load(checkpoint, data))


def main(folder):
    made = FIXTURES / "checkpoints"
    made.mkdir(parents=True, exist_ok=True)
    write_text()
    write_shapes()
    data = write_data(folder / "data")
    for name, flags in TRAINED.items():
        train(data, *OPTIONS, *SIZE, *THREE, *flags, "--save-dir", folder / name)
        shutil.copy(folder / name / "checkpoint_last.pt", made / f"{name}.pt")
    hydra = [HYDRA, *(f"+model.{name}={value}" for name, value in FIELDS.items()), f"task.data={data}"]
    subprocess.run(" ".join([*hydra, f"checkpoint.save_dir={folder}/hydra"]), check=True, cwd=ROOT, shell=True)
    shutil.copy(folder / "hydra/checkpoint_last.pt", made / "hydra.pt")
    model = large(build("tupe_r_tiny", **FIELDS)).float()
    model.register_span_head()
    task = vars(TupeQuestionAnsweringConfig(str(data), 24, doc_stride=4, max_query=8, seed=1))
    task = {name: getattr(value, "value", value) for name, value in task.items()}
    name = {"_name": "tupe_question_answering"}
    write_checkpoint(made / "spans.pt", model, "tupe_r_tiny", {**task, **name}, name)
    logits = write_bert(folder / "bert")
    for name in NAMES:
        found = outputs(loaded(name, data))
        logits.update({f"{name}/{key}": value for key, value in found.items()})
    np.savez_compressed(FIXTURES / "logits.npz", **{name: tensor.numpy() for name, tensor in logits.items()})
    logits = {f"{name}/{key}": value for name in EXPORTED for key, value in export(name, folder, data).items()}
    np.savez_compressed(FIXTURES / "exported.npz", **{name: tensor.numpy() for name, tensor in logits.items()})
    with zipfile.ZipFile(FIXTURES / "exported.zip", "w", zipfile.ZIP_DEFLATED) as file:
        for name in EXPORTED:
            for part in ("config.json", "model.safetensors"):
                file.write(folder / "exported" / name / part, f"{name}/{part}")
    torch.save(resumed(folder / "resumed"), FIXTURES / "resumed.pt")
    (FIXTURES / "loss.json").write_text(json.dumps({"bits": loss_after_200_updates(folder / "loss")}) + "\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
