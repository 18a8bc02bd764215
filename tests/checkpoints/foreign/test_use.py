"""Commands that take an imported model: prepare a corpus, fine-tune, predict, export."""

import pytest
import torch
from fairseq.data.indexed_dataset import MMapIndexedDataset

from tests.checkpoints.foreign.conftest import LINES, opened, write_json
from tests.checkpoints.foreign.test_importing import rows_of
from tests.commands import finetune, hydra_train
from tests.conftest import write
from tupe.cli.main import main
from tupe.data.tokenizers import open_tokenizer
from tupe.models import TupeModel
from tupe.patches.safe_load import safe_load

transformers = pytest.importorskip("transformers")
README = ["---", "language: en", "license: apache-2.0", "---", "# A model", "license: none of this"]


def rows(path):
    return [item.tolist() for item in MMapIndexedDataset(str(path))]


@pytest.mark.parametrize("kind", ["roberta", "bert", "camembert"])
def test_there_and_back(kind, saved, tmp_path):
    """Exported again, it says what the original says of the same text."""
    folder, model = saved(kind)
    write(folder / "README.md", README)
    out = tmp_path / "out"
    assert main(["import", str(folder), str(out), "--language", "en"]) == 0
    assert main(["export", str(out / "checkpoint.pt"), str(out), str(tmp_path / "exported")]) == 0
    ours = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "exported").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "exported")
    assert tokenizer(*LINES[:2])["input_ids"] == opened(out).encode(*LINES[:2]).tolist()
    options = {"padding": True, "truncation": True, "return_tensors": "pt", "return_token_type_ids": True}
    batch = tokenizer(LINES[:2], LINES[2:4], **options)
    inputs = {**batch, "input_ids": rows_of(folder)[batch["input_ids"]]}
    if ours.config.segment == "none":
        del inputs["token_type_ids"]
    with torch.no_grad():
        found = ours(batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        wanted = model(**inputs).logits[..., rows_of(folder)]
    assert (found - wanted)[batch["attention_mask"].bool()].abs().max() < 1e-5 * wanted.abs().max()
    card = (tmp_path / "exported/README.md").read_text()
    assert "license: apache-2.0\n" in card and f"base_model: {folder.name}\n" in card


def write_rte(folder):
    head, label = "index\tsentence1\tsentence2", ("entailment", "not_entailment")
    pairs = [f"{row}\t{LINES[row % 4]}\t{LINES[(row + 1) % 4]}\t{label[row % 2]}" for row in range(16)]
    for split in ("train", "dev"):
        write(folder / f"RTE/{split}.tsv", [f"{head}\tlabel", *pairs])
    write(folder / "RTE/test.tsv", [head, *(pair.rpartition("\t")[0] for pair in pairs)])
    return folder


def test_one_is_fine_tuned_predicts_and_is_exported(saved, tmp_path):
    """A BERT without a language-model head, whose pairs have one separator, in every step."""
    out, glue, run = tmp_path / "bert", tmp_path / "glue", tmp_path / "run"
    assert main(["import", str(saved("bert", "ForPreTraining", base=True)[0]), str(out), "--pooler"]) == 0
    command = ["prepare-glue", str(write_rte(tmp_path / "download")), str(out), "RTE", str(glue)]
    assert main([*command, "--workers", "1"]) == 0
    tokenizer = open_tokenizer(out / "tokenizer.json")
    assert rows(glue / "RTE/input1/train") == [[*tokenizer(LINES[(row + 1) % 4]), 2] for row in range(16)]
    keys = ("optimization.max_epoch=1", "dataset.batch_size=8", f"checkpoint.save_dir={run}")
    done = finetune("RTE", out / "checkpoint.pt", glue, *keys)
    assert done.returncode == 0, done.stderr[-2000:]
    (out / "checkpoint.pt").unlink()
    best, state = str(run / "checkpoint_best.pt"), safe_load(run / "checkpoint_best.pt")
    assert state["cfg"]["model"]["pair_separators"] == 1 and state["cfg"]["model"]["layer_norm_eps"] == 1e-12
    assert not any(name.startswith("pooler.") or "lm_head" in name for name in state["model"])
    assert main(["predict", best, str(glue / "RTE"), str(tmp_path / "said")]) == 0
    assert len((tmp_path / "said/RTE.tsv").read_text().splitlines()) == 17
    assert main(["export", best, str(glue / "RTE"), str(tmp_path / "exported"), "--corpus", str(out)]) == 0
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "exported").eval()
    batch = transformers.AutoTokenizer.from_pretrained(tmp_path / "exported")(*LINES[:2], return_tensors="pt")
    hub = TupeModel.from_pretrained(run, "checkpoint_best.pt", glue / "RTE", sentencepiece_model=out / "tokenizer.json")
    hub.eval()
    assert hub.encode(*LINES[:2]).tolist() == batch["input_ids"][0].tolist()
    with torch.no_grad():
        wanted = hub.predict("sentence_classification_head", batch["input_ids"], return_logits=True)
        assert (model(**batch).logits - wanted).abs().max() < 1e-5


@pytest.mark.parametrize(("mode", "normalize"), [("mean", True), ("cls", False), ("max", True)])
def test_vectors_of_sentences(mode, normalize, saved, tmp_path):
    """A batch of texts is pooled, normalized and cut as sentence-transformers does; an export and its graph, too."""
    sentences, onnxruntime = pytest.importorskip("sentence_transformers"), pytest.importorskip("onnxruntime")
    folder, out, exported = saved("bert", base=True)[0], tmp_path / "out", tmp_path / "exported"
    kinds = ["Transformer", "Pooling", *["Normalize"] * normalize]
    modules = [
        {"idx": n, "name": str(n), "path": f"{n}_{kind}" * (n > 0), "type": f"sentence_transformers.models.{kind}"}
        for n, kind in enumerate(kinds)
    ]
    write_json(folder / "modules.json", modules)
    limits = (20, 60) if mode == "mean" else (None, 20)  # sentence-transformers 6 writes only the second
    write_json(folder / "sentence_bert_config.json", {"do_lower_case": True, "max_seq_length": limits[0]})
    write_json(folder / "tokenizer_config.json", {"do_lower_case": False, "model_max_length": limits[1]})
    (folder / "1_Pooling").mkdir()
    flag = {"cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens"}[mode]
    write_json(folder / "1_Pooling/config.json", {"word_embedding_dimension": 16, f"pooling_mode_{flag}": True})
    wanted = sentences.SentenceTransformer(str(folder), device="cpu").encode(LINES)
    assert main(["import", str(folder), str(out)]) == 0
    hub = opened(out)
    assert hub.encode(LINES, LINES).shape[0] == len(LINES) and max(map(len, map(hub.encode, LINES))) > 20
    assert abs(hub.sentence_vectors(LINES).numpy() - wanted).max() < 1e-5 * abs(wanted).max()
    assert main(["export", str(out / "checkpoint.pt"), str(out), str(exported)]) == 0
    again = sentences.SentenceTransformer(str(exported), device="cpu", trust_remote_code=True)
    assert abs(again.encode(LINES) - wanted).max() < 1e-5 * abs(wanted).max()
    assert main(["export-onnx", str(exported)]) == 0
    session = onnxruntime.InferenceSession(str(exported / "onnx/model.onnx"), providers=["CPUExecutionProvider"])
    assert [output.name for output in session.get_outputs()] == ["last_hidden_state", "sentence_embedding"]
    cut = again.tokenizer([*map(str.lower, LINES)], padding=True, truncation=True, max_length=20, return_tensors="np")
    found = session.run(["sentence_embedding"], {name: cut[name] for name in ("input_ids", "attention_mask")})[0]
    assert abs(found - wanted).max() < 1e-5 * abs(wanted).max()


def test_a_mask_filled_with_words_and_parts_of_words(saved, tmp_path):
    assert main(["import", str(saved("bert")[0]), str(tmp_path / "out")]) == 0
    filled = opened(tmp_path / "out").fill_mask("the <mask> of", 1000)
    assert {text for text, _, _ in filled} >= {"the river of", "thea of"}
    assert not any("#" in text for text, _, word in filled if len(word) > 2)


def test_pre_training_goes_on(saved, tmp_path):
    """With the fields of the model, as `tupe pretrain --init-from` gives them, from its weights."""
    out = tmp_path / "bert"
    assert main(["import", str(saved("bert")[0]), str(out)]) == 0
    text = tmp_path / "text.txt"
    write(text, [line for document in range(8) for line in (*LINES, f"{document} {document}.", "")])
    command = ["prepare-corpus", str(text), str(tmp_path / "data"), "--vocabulary", str(out)]
    assert main([*command, "--valid-documents", "2", "--workers", "1"]) == 0
    assert (tmp_path / "data/dict.txt").read_bytes() == (out / "dict.txt").read_bytes()
    assert [*open_tokenizer(out / "tokenizer.json")(LINES[0]), 2] in rows(tmp_path / "data/train")
    hydra_train(
        tmp_path / "data", tmp_path / "run", f"+model.pretrained={out / 'checkpoint.pt'}", "optimization.max_update=2",
        "optimization.lr=[1e-8]", "lr_scheduler.warmup_updates=1",
    )  # fmt: skip
    before, after = (safe_load(path)["model"] for path in (out / "checkpoint.pt", tmp_path / "run/checkpoint_last.pt"))
    assert before.keys() == after.keys()
    assert all((before[name] - after[name]).abs().max() < 1e-6 for name in before)
