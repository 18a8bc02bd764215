"""`fairseq-preprocess`, called in this process with a dictionary that is already there."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

from tupe.errors import UserError


def check_folder(folder: Path) -> None:
    """Raises a `UserError` for a file, and if fairseq would read the folder's name as a list of names."""
    if folder.is_file():
        raise UserError(f"{folder} is a file, but OUT is a folder to write: give its name too.")
    for sign in ",:":
        if sign in str(folder):
            raise UserError(f"fairseq takes the '{sign}' in {folder} for the end of a name: use a folder without.")


def binarise(
    destination: Path,
    dictionary: Path,
    splits: dict[str, list[Path]],
    workers: int = 1,
    languages: Optional[tuple[str, str]] = None,
) -> None:
    """Turns files of symbols separated by spaces into fairseq's binary data.

    Args:
        destination: folder that gets `dict.txt`, `train.bin`, `train.idx` and so on.
        dictionary: fairseq's `dict.txt`, used as it is (`--srcdict`).
        splits: `train`, `valid` or `test` to its files; a second valid file becomes `valid1`, as fairseq names it.
        workers: processes that fairseq starts.
        languages: of parallel data, whose files are those of `splits` with `.en`, `.de`; the folder then gets
            `dict.en.txt`, `train.en-de.en.bin` and so on.

    Raises:
        UserError: if the binary data has not as many sequences as the files have lines.
    """
    from fairseq import options
    from fairseq_cli import preprocess

    import tupe.data.pieces  # noqa: F401

    check_folder(destination)
    preprocess.logger.propagate = False  # on the screen its log would break the progress bar
    arguments = ["--task", "tupe_pieces", "--srcdict", str(dictionary), "--destdir", str(destination)]
    if languages is None:
        arguments += ["--only-source"]
    else:
        arguments += ["--joined-dictionary", "--source-lang", languages[0], "--target-lang", languages[1]]
    for split, files in splits.items():
        arguments += [f"--{split}pref", ",".join(map(str, files))]
    try:
        preprocess.main(options.get_preprocessing_parser().parse_args([*arguments, "--workers", str(workers)]))
    finally:
        for handler in list(preprocess.logger.handlers):
            preprocess.logger.removeHandler(handler)
            handler.close()
        (destination / "preprocess.log").unlink(missing_ok=True)  # of names of temporary files
    for split, files in splits.items():
        for number, file in enumerate(files):
            name = f"{split}{number or ''}"
            if languages is None:
                _check_length(file, destination / name)
            for language in languages or ():
                _check_length(Path(f"{file}.{language}"), destination / f"{name}.{'-'.join(languages)}.{language}")


def _check_length(text: Path, prefix: Path) -> None:
    """fairseq divides a file among processes by positions in it; that no line was lost is seen here."""
    from fairseq.data.indexed_dataset import MMapIndexedDataset

    with text.open("rb") as file:
        lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    sequences = len(MMapIndexedDataset(str(prefix)))
    if sequences != lines:
        raise UserError(
            f"fairseq-preprocess made {sequences} sequences of the {lines} lines of {text}: use --workers 1."
        )
