"""Questions about paragraphs: SQuAD's JSON, and its data for the task `tupe_question_answering`.

A prepared folder has `dict.txt` and a folder for each split, which holds

    questions.json      the file as it was published
    context, question   fairseq's binary data: the pieces of every paragraph and question
    begin, end          fairseq's binary data: the characters of the pieces of `context`
    examples.npy        int64 `(N, 4)`: the number of the question and of its paragraph in the file, the first and last
                        piece of its answer (-1 without an answer)
    report.json         the source file, its rules and language, and counts of its questions

Windows are made when a split is read, so their length and stride can be chosen then.
"""

import json
import shutil
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any, Literal

import numpy as np
from tqdm import tqdm

from tupe.data.binary import writer
from tupe.data.documents import open_compressed, unchanged
from tupe.data.manifest import REPORT, Manifest, checksums
from tupe.data.parallel import Map, batches, counted, pool
from tupe.data.scores import Tokens, scores, tokens
from tupe.data.text import KEEP_WHITE_SPACE, LINE_STAGES, REPAIR, mark, repaired
from tupe.data.tokenizers import UNKNOWN_NUMBER, Pieces, kept_tokenizer, read_symbols
from tupe.util import UserError, atomic, labelled, read_json, run_folder, sha256, write_json

EXAMPLES, QUESTIONS = "examples.npy", "questions.json"
_CHARACTERS = 1 << 30  # more numbers than a context has characters
_BATCH = 16  # paragraphs sent to a process at a time


def read(path: Path) -> list[dict[str, Any]]:
    """Return the paragraphs of a file of SQuAD v1.1, MLQA, XQuAD or TyDiQA-GoldP, which may be compressed.

    As in the file, each has a `context`, and `qas` with `id`, `question` and `answers`. Only answers without text, such
    as those of XTREME's test sets, are left out.
    """
    paragraphs = [paragraph for article in read_compressed_json(path)["data"] for paragraph in article["paragraphs"]]
    for question in chain.from_iterable(paragraph["qas"] for paragraph in paragraphs):
        question["answers"] = [answer for answer in question.get("answers", ()) if answer["text"]]
    return paragraphs


def read_compressed_json(path: Path) -> Any:
    """Read a JSON file, which may be compressed."""
    with open_compressed(path) as file:
        return json.loads(file.read())


def score(paragraphs: list[dict], predictions: Mapping[str, str], of: Tokens) -> dict[str, float]:
    """Compute `exact_match` and `f1` like the official scripts: means over all questions, in percent.

    A question without a prediction counts as 0. If no question has an answer, the result is empty.
    """
    questions = [question for paragraph in paragraphs for question in paragraph["qas"]]
    if not any(question["answers"] for question in questions):
        return {}
    answered = [question for question in questions if question["id"] in predictions]
    found = [scores(predictions[one["id"]], (answer["text"] for answer in one["answers"]), of) for one in answered]
    sums = map(sum, zip(*found)) if found else (0, 0)
    return {name: 100 * value / len(questions) for name, value in zip(("exact_match", "f1"), sums)}


def qa_score(
    reference: Path, predictions: Path, *, rules: Literal["squad", "mlqa"] = "squad", language: str = "en"
) -> str:
    """Score answers by the official rules of SQuAD or MLQA: exact match and F1 in percent, as JSON.

    XQuAD and TyDiQA-GoldP are scored by SQuAD's rules. Files may be compressed.

    Args:
        reference: Questions with their answers, in SQuAD's JSON format.
        predictions: JSON with an answer for each question's id.
        rules: Rules by which answers are scored.
        language: Language of the text.
    """
    paragraphs, predicted = read(reference), read_compressed_json(predictions)
    ids = {question["id"] for paragraph in paragraphs for question in paragraph["qas"]}
    if missing := ids - predicted.keys():
        text = f"{len(missing)} question(s) without a prediction count as 0, such as {min(missing)}"
        print(f"warning: {text}", file=sys.stderr)
    return json.dumps(score(paragraphs, predicted, tokens(rules, language)))


class Encoder:
    """Encode texts into pieces as a corpus was encoded, and map each piece to its characters in the text.

    Tokenizers normalize text (SentencePiece by NFKC), so lengths change. Their own offsets lead back to the
    characters of their input; a piece that starts a word includes the space before it.

    Raises:
        UserError: the corpus' text processing changes words.
    """

    def __init__(self, corpus: Manifest) -> None:
        stages = corpus.settings.stages
        if any(name in LINE_STAGES and name != REPAIR for name in stages):
            raise UserError(
                f"The text processing of {corpus.folder} changes words, so answers cannot be found in the text. "
                "Prepare the corpus with --profile sentencepiece."
            )
        self._tokenizer = kept_tokenizer(corpus.model)
        self._repair = REPAIR in stages
        self._keep = KEEP_WHITE_SPACE in stages and not self._repair

    def __call__(self, text: str) -> Pieces:
        """Return the pieces of a text, and the characters of the text that each covers."""
        if text.isprintable() and "\ufffd" not in text:
            return self._tokenizer.pieces(text)
        kept = [(place, new) for place, old in enumerate(text) if (new := self._character(old))]
        numbers, begin, end = self._tokenizer.pieces("".join(new for _, new in kept))
        position = np.array([place for place, _ in kept] or [0])
        blank, last = begin == end, position[end - 1] + 1
        return Pieces(numbers, np.where(blank, last, position[begin * ~blank]), last)

    def _character(self, character: str) -> str:
        """Return the character that the text processing replaces `character` with, or an empty string."""
        if character.isspace():
            return character if self._keep and character not in "\r\n" else " "
        return repaired(character) if self._repair else mark(character)


def prepare_qa(
    files: Sequence[str],
    corpus: Path,
    out: Path,
    *,
    rules: Literal["squad", "mlqa"] = "squad",
    language: str = "en",
    workers: int = 0,
) -> str:
    """Prepare extractive question answering (SQuAD v1.1, MLQA, XQuAD, TyDiQA-GoldP) with the vocabulary of a corpus.

    The splits are train, valid, valid1, ..., test, and test-de, test-fr, ... for single languages. Splits that OUT
    already has are kept. Files may be compressed.

    tupe prepare-qa train=train-v1.1.json valid=dev-v1.1.json test-de=xquad.de.json data/wiki data/squad

    Args:
        files: SPLIT=FILE, in SQuAD's JSON format.
        corpus: Prepared corpus, or an imported model.
        out: Folder to write.
        rules: Rules by which answers are scored.
        language: Language of the splits that are not named by one.
        workers: Processes; all cores by default.

    Raises:
        UserError: `out` was made with another corpus or rules, or a split of it from another file.
    """
    manifest, lines = Manifest.load(corpus), []
    Encoder(manifest)  # raises here, before anything is written
    with run_folder(out, {**manifest.described(), "rules": rules}), pool(workers) as map_:
        for split, path in labelled(files):
            own = split.partition("-")[2] or language  # `test-de` is German
            about = {"file": path.name, "sha256": sha256(path), "rules": rules, "language": own}
            if not (out / split).exists():
                with atomic(out / split) as part, unchanged([path]):
                    _write_split(split, path, manifest, about, part, map_)

            report = read_json(out / split / REPORT)
            if any(report[name] != about[name] for name in ("sha256", "language")):
                raise UserError(
                    f"{out / split} was made from {report['file']} in {report['language']}. Delete it first."
                )
            lines.append(f"{split:<8} {report['kept']:,} kept: {counted(report['counts'])}")
        shutil.copyfile(manifest.dictionary, out / manifest.dictionary.name)
    return "\n".join([*lines, f"data: {out}"])


def _write_split(split: str, path: Path, corpus: Manifest, about: dict[str, str], out: Path, map_: Map) -> None:
    """Write the files of a split, whose report starts with `about`."""
    paragraphs, symbols = read(path), len(read_symbols(corpus.dictionary))
    sizes = {"context": symbols, "question": symbols, "begin": _CHARACTERS, "end": _CHARACTERS}
    counts, examples, numbers = Counter(contexts=len(paragraphs)), [], count()
    out.mkdir()
    with open_compressed(path) as source, (out / QUESTIONS).open("wb") as plain:
        shutil.copyfileobj(source, plain)

    with ExitStack() as stack:
        add = {name: stack.enter_context(writer(out / name, size)) for name, size in sizes.items()}
        encoded = chain.from_iterable(map_(partial(_encode, corpus), batches(paragraphs, _BATCH)))
        for place, (context, questions) in enumerate(tqdm(encoded, split, len(paragraphs), disable=None)):
            for name, values in zip(("context", "begin", "end"), context):
                add[name](values)
            counts["pieces"] += len(context.numbers)
            counts["unknown pieces"] += int((context.numbers == UNKNOWN_NUMBER).sum())

            for (pieces, target), number in zip(questions, numbers):
                counts["questions with a target" if target else "questions without a target"] += 1
                if target or split != "train":
                    add["question"](pieces)
                    examples.append((number, place, *(target or (-1, -1))))

    np.save(out / EXAMPLES, np.array(examples, dtype=np.int64))
    write_json(out / REPORT, {**about, "kept": len(examples), "counts": counts, "checksums": checksums(out)})


def _encode(corpus: Manifest, batch: list[dict]) -> list[tuple[Pieces, list[tuple]]]:
    """Encode some paragraphs in a process of the pool, and find the pieces of each answer.

    Returns:
        The pieces of each paragraph; for each of its questions, the pieces, and the answer's first and last piece.
    """
    encoder, found = Encoder(corpus), []
    for paragraph in batch:
        context = encoder(paragraph["context"])
        questions = []
        for question in paragraph["qas"]:
            pieces = encoder(question["question"]).numbers
            target = _target(paragraph["context"], context, question["answers"])
            questions.append((pieces, target if len(pieces) else None))
        found.append((context, questions))
    return found


def _target(context: str, pieces: Pieces, answers: list[dict]) -> tuple[int, int] | None:
    """Return the first and last piece of the first answer; `None` if the context or its pieces do not contain it."""
    if not answers:
        return None
    text, start = answers[0]["text"], answers[0]["answer_start"]
    begin, end = start + len(text) - len(text.lstrip()), start + len(text.rstrip())
    found = start >= 0 and context.startswith(text, start) and begin < end
    return pieces.span(begin, end - 1) if found else None
