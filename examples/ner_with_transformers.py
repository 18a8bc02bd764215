"""Fine-tunes an exported folder on labels of words with Transformers' Trainer. It needs neither fairseq nor tupe.

python examples/ner_with_transformers.py FOLDER TRAIN.conll DEV.conll OUT [EPOCHS] [RATE]

FOLDER is a folder of `tupe export`. The CoNLL files have a line per word, whose first column is the word and whose last
column is its label, and an empty line after each sentence. A word's label is learned and predicted at its first token.
For the F1 of entities, give `seqeval.metrics.f1_score` the names of the labels, a list per sentence.
"""

import sys
from itertools import groupby, pairwise

from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    Trainer,
    TrainingArguments,
)

NO_LABEL = -100  # the loss ignores it


def read(path: str) -> list[list[list[str]]]:
    with open(path, encoding="utf-8") as file:
        rows = [line.split("\t" if "\t" in line else None) for line in map(str.rstrip, file)]
    return [list(lines) for filled, lines in groupby(rows, bool) if filled]


def scores(predicted) -> dict[str, float]:
    known = predicted.label_ids != NO_LABEL
    found = predicted.predictions.argmax(-1)
    return {"accuracy": float((found[known] == predicted.label_ids[known]).mean())}


def main(folder: str, train: str, dev: str, out: str, epochs: float = 3, rate: float = 5e-5) -> None:
    sentences = {"train": read(train), "dev": read(dev)}
    labels = sorted({line[-1] for sentence in sentences["train"] for line in sentence})
    numbers = {label: number for number, label in enumerate(labels)}
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    model = AutoModelForTokenClassification.from_pretrained(
        folder, trust_remote_code=True, id2label=dict(enumerate(labels)), label2id=numbers
    )

    def encode(sentence: list[list[str]]) -> dict:
        words = [" " * (place > 0) + line[0] for place, line in enumerate(sentence)]  # as in the text
        encoded = tokenizer(words, is_split_into_words=True, truncation=True)
        encoded["labels"] = [
            NO_LABEL if place in (None, before) else numbers[sentence[place][-1]]
            for before, place in pairwise([None, *encoded.word_ids()])
        ]
        return dict(encoded)

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
        data_collator=DataCollatorForTokenClassification(tokenizer),
        train_dataset=[encode(sentence) for sentence in sentences["train"]],
        eval_dataset=[encode(sentence) for sentence in sentences["dev"]],
        processing_class=tokenizer,
        compute_metrics=scores,
    )
    trainer.train()
    print(trainer.evaluate())
    trainer.save_model(out)  # weights, tokenizer and code: a folder like FOLDER


if __name__ == "__main__":
    main(*sys.argv[1:5], *map(float, sys.argv[5:]))
