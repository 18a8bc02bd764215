"""Use an exported folder where fairseq and tupe cannot be imported. `use.py FOLDER OUT` writes the results to OUT."""
# ruff: noqa: E402  the environment comes first

import json
import os
import sys
from pathlib import Path

sys.modules.update(dict.fromkeys(("fairseq", "hydra", "omegaconf", "tupe", "torchaudio")))
folder, out = map(Path, sys.argv[1:3])
os.environ.update(HF_HUB_OFFLINE="1", HF_MODULES_CACHE=str(out / "modules"))

import torch
from torch.utils.data import Dataset
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
    pipeline,
)

TEXTS = ["Anna sees the house and Bob likes a red car .", "Carl hears the blue sea ."]
seen = {}


def load(auto, path=folder):
    return auto.from_pretrained(path, trust_remote_code=True).eval()


tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
model = load(AutoModelForMaskedLM)
with torch.no_grad():
    torch.save({"ids": batch["input_ids"], "logits": model(**batch).logits}, out / "logits.pt")
    features = load(AutoModel)(**batch)[0]
    for auto in (AutoModelForTokenClassification, AutoModelForQuestionAnswering):
        seen[auto.__name__] = [list(x.shape) for x in load(auto)(**batch).to_tuple()]
    classifier = load(AutoModelForSequenceClassification)

model.save_pretrained(out / "again")
tokenizer.save_pretrained(out / "again")
again = load(AutoModelForMaskedLM, out / "again")
with torch.no_grad():
    seen["same bits"] = torch.equal(again(**batch).logits, model(**batch).logits)
seen["classes again"] = type(load(AutoModelForSequenceClassification, out / "again")).__name__

masked = "Anna sees the <mask> and Bob likes a red car ."
seen["filled"] = len(pipeline("fill-mask", model=model, tokenizer=tokenizer)(masked))
seen["classification"] = pipeline("text-classification", model=classifier, tokenizer=tokenizer)(TEXTS)
extracted = pipeline("feature-extraction", model=load(AutoModel), tokenizer=tokenizer)(TEXTS[0])
seen["features"] = (torch.tensor(extracted)[0] - features[0, : len(extracted[0])]).abs().max().item()


class Lines(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return dict(tokenizer(TEXTS[i % 2]))


arguments = TrainingArguments(
    output_dir=out / "trained", max_steps=3, per_device_train_batch_size=4, report_to="none", use_cpu=True,
    gradient_checkpointing=True, learning_rate=1e-2, logging_steps=1, save_strategy="no", disable_tqdm=True,
)  # fmt: skip
collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.5)
trainer = Trainer(model, arguments, train_dataset=Lines(), eval_dataset=Lines(), data_collator=collator)
trainer.train()
seen["evaluation"] = trainer.evaluate()["eval_loss"]
trainer.save_model(out / "trained")
trained = load(AutoModelForMaskedLM, out / "trained")
with torch.no_grad():
    model.eval()
    seen["trained"] = torch.equal(trained(**batch).logits, model(**batch).logits)

from sentence_transformers import CrossEncoder, SentenceTransformer

CrossEncoder(str(folder), num_labels=1, trust_remote_code=True, device="cpu").predict([TEXTS])
sentences = SentenceTransformer(str(folder), trust_remote_code=True, device="cpu")
vectors = sentences.encode(TEXTS)
sentences.save(str(out / "sentences"))
reloaded = SentenceTransformer(str(out / "sentences"), trust_remote_code=True, device="cpu")
seen["sentences"] = [list(vectors.shape), float(abs(reloaded.encode(TEXTS) - vectors).max())]
seen["modules"] = sorted(name for name in ("fairseq", "tupe") if sys.modules.get(name) is not None)
(out / "seen.json").write_text(json.dumps(seen))
