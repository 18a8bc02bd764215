"""Fine-tunes an exported folder on labels of texts by Transformers' Trainer. It needs neither fairseq nor tupe.

python examples/finetune_with_transformers.py FOLDER TRAIN.csv DEV.csv OUT [EPOCHS] [RATE]

FOLDER is a folder of `tupe export`. The files, CSV or TSV, have the columns `text` and `label`. For pairs, call
`tokenizer(row["first"], row["second"])`. Labels that are numbers need `num_labels=1` and `problem_type="regression"`.
Several labels of a text need `problem_type="multi_label_classification"` and rows of 0.0 and 1.0 as labels.
Class weights are an argument of the Trainer, `compute_loss_func`.
"""

import csv
import sys

from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    Trainer,
    TrainingArguments,
)


def read(path: str) -> list[dict[str, str]]:
    options = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if path.endswith(".tsv") else {}
    with open(path, newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file, **options))


def accuracy(predicted) -> dict[str, float]:
    return {"accuracy": float((predicted.predictions.argmax(-1) == predicted.label_ids).mean())}


def main(folder: str, train: str, dev: str, out: str, epochs: float = 3, rate: float = 3e-5) -> None:
    rows = {"train": read(train), "dev": read(dev)}
    labels = sorted({row["label"] for row in rows["train"]})
    numbers = {label: number for number, label in enumerate(labels)}
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    model = AutoModelForSequenceClassification.from_pretrained(
        folder, trust_remote_code=True, id2label=dict(enumerate(labels)), label2id=numbers
    )

    def encode(row: dict[str, str]) -> dict:
        return {**tokenizer(row["text"], truncation=True), "label": numbers[row["label"]]}

    trainer = Trainer(
        model,
        TrainingArguments(
            out,
            num_train_epochs=epochs,
            learning_rate=rate,
            per_device_train_batch_size=32,
            eval_strategy="epoch",
            save_strategy="no",
            report_to="none",
        ),
        data_collator=DataCollatorWithPadding(tokenizer),
        train_dataset=[encode(row) for row in rows["train"]],
        eval_dataset=[encode(row) for row in rows["dev"]],
        processing_class=tokenizer,
        compute_metrics=accuracy,
    )
    trainer.train()
    print(trainer.evaluate())
    trainer.save_model(out)  # weights, tokenizer and code: a folder like FOLDER


if __name__ == "__main__":
    main(*sys.argv[1:5], *map(float, sys.argv[5:]))
