"""Published scores of TUPE and DIET on GLUE, of DIET on XTREME, and of RoBERTa and XLM-R in fairseq's README.

`None` is a score that was not published.
"""

from tupe.finetune.columns import GLUE, XTREME, Cell, Column, Row

# system, updates; then the columns of `tupe.finetune.columns.GLUE` without WNLI: MNLI-m, MNLI-mm, QNLI, QQP, SST-2,
# CoLA, MRPC, RTE, STS-B
_BASE = (
    ("BERT-A, 1M", 84.93, 84.91, 91.34, 91.04, 92.88, 55.19, 88.29, 68.61, 89.43),
    ("BERT-R, 1M", 85.81, 85.84, 92.16, 91.12, 92.90, 55.43, 89.26, 71.46, 88.94),
    ("TUPE-A, 1M", 86.05, 85.99, 91.92, 91.16, 93.19, 63.09, 88.37, 71.61, 88.88),
    ("TUPE-R, 1M", 86.21, 86.19, 92.17, 91.30, 93.26, 63.56, 89.89, 73.56, 89.23),
    ("TUPE-A, 300k", 84.76, 84.83, 90.96, 91.00, 92.25, 62.13, 87.1, 68.79, 88.16),
    ("TUPE-R, 300k", 84.86, 85.21, 91.23, 91.14, 92.41, 62.47, 87.29, 69.85, 88.63),
    ("TUPE-A^tie-cls, 1M", 85.91, 85.73, 91.90, 91.05, 93.17, 59.46, 88.53, 69.54, 88.97),
    ("BERT-A^d, 1M", 85.26, 85.28, 91.56, 91.02, 92.70, 59.73, 88.46, 71.31, 87.47),
)
_LARGE = (
    ("BERT-Large, 1M", 88.21, 88.18, 93.56, 91.66, 94.08, 58.42, 90.46, 77.63, 90.15),
    ("TUPE-Large, 1M", 88.22, 88.21, 93.55, 91.69, 94.98, 67.46, 90.06, 81.66, 90.67),
    ("TUPE-Large, 300k", 86.92, 86.80, 92.61, 91.48, 93.97, 63.88, 89.26, 75.82, 89.34),
)
_ELECTRA = (
    ("ELECTRA, 1M", 86.42, 86.14, 92.19, 91.45, 92.97, 65.92, 89.74, 73.56, 89.99),
    ("ELECTRA-TUPE, 1M", 86.98, 87.01, 92.03, 91.75, 93.97, 66.51, 89.74, 76.53, 90.13),
    ("ELECTRA-TUPE, 600k", 86.72, 86.74, 91.84, 91.72, 93.30, 66.42, 89.34, 75.64, 89.67),
)
# segments at the input unless noted; MRPC and RTE were not published
_DIET = (
    ("BERT", 85.8, 85.9, 89.9, 91.1, 93.2, 58.7, None, None, 89.0),
    ("Shaw", 86.3, 86.0, 90.5, 91.2, 93.2, 59.8, None, None, 89.3),
    ("T5", 86.4, 86.2, 90.1, 91.2, 93.0, 59.6, None, None, 90.1),
    ("TUPE-R", 86.1, 86.2, 90.3, 91.2, 93.1, 59.6, None, None, 89.6),
    ("DIET-REL", 86.0, 86.1, 89.8, 91.0, 92.8, 59.6, None, None, 89.0),
    ("DIET-REL, segments per head", 86.3, 86.3, 90.5, 91.0, 92.9, 60.3, None, None, 89.3),
    ("DIET-REL, segments per head, shared by layers", 86.5, 86.3, 90.0, 91.1, 93.0, 58.8, None, None, 89.6),
    ("DIET-REL, segments per head, shared by heads", 85.8, 85.7, 90.2, 91.2, 92.8, 59.8, None, None, 89.1),
    ("DIET-ABS, rank 64", 86.1, 85.8, 90.0, 91.2, 93.0, 58.9, None, None, 89.9),
    ("DIET-ABS, rank 64, segments per head", 86.1, 86.1, 90.2, 91.2, 93.0, 58.9, None, None, 89.8),
    ("DIET-ABS, rank 128, segments per head", 86.7, 86.5, 90.6, 91.2, 92.8, 60.1, None, None, 89.4),
    ("DIET-ABS, rank 64, segments per head, shared", 86.0, 86.8, 90.4, 91.1, 92.9, 59.3, None, None, 89.8),
    ("DIET-ABS, rank 128, segments per head, shared", 86.4, 86.4, 89.5, 90.8, 93.0, 59.8, None, None, 90.2),
    ("Linformer, k 32", 82.3, 82.6, 86.3, 90.2, 91.4, 53.9, None, None, 87.6),
    ("DIET-ABS-LIN, k 32", 83.0, 83.1, 86.7, 90.6, 92.0, 55.7, None, None, 87.6),
)
# without MNLI-mm: the paper prints one number for MNLI without its half
_ROBERTA = (
    ("roberta.base", 87.6, None, 92.8, 91.9, 94.8, 63.6, 90.2, 78.7, 91.2),
    ("roberta.large", 90.2, None, 94.7, 92.2, 96.4, 68.0, 90.9, 86.6, 92.4),
)
# XNLI; then F1 and exact match of XQuAD, MLQA and TyDiQA-GoldP
_XTREME = (
    ("BERT", 67.0, 66.0, 49.9, 56.2, 41.0, 59.0, 47.9),
    ("Shaw", 67.9, 69.5, 53.9, 58.2, 43.1, 64.8, 49.9),
    ("T5", 68.5, 69.9, 53.5, 59.5, 44.3, 63.8, 50.6),
    ("TUPE-R", 67.8, 68.6, 52.0, 58.6, 43.2, 63.9, 48.7),
    ("DIET-REL, segments at input", 68.0, 68.1, 52.8, 57.7, 42.7, 63.3, 50.9),
    ("DIET-REL, segments per head", 68.4, 69.4, 54.4, 58.6, 43.5, 62.4, 49.3),
    ("DIET-ABS, rank 128, shared", 68.5, 70.0, 53.6, 59.8, 44.5, 64.6, 51.5),
    ("Linformer, k 256", 63.6, 59.1, 43.7, 48.9, 34.0, 50.5, 37.9),
    ("DIET-ABS-LIN, k 256", 64.4, 61.6, 46.0, 52.2, 37.0, 53.6, 40.9),
)
# trained only on English for MLQA; for XNLI on translations into all its languages
_XLMR = (("xlmr.large", 83.6, None, None, 70.7, 52.7, None, None),)


def _rows(table: tuple[tuple, ...], source: str, columns: tuple[Column, ...] = GLUE) -> list[Row]:
    names = [column.name for column in columns if column.averaged]
    return [
        Row(
            f"{name} ({source})",
            {column: Cell(score) for column, score in zip(names, scores) if score is not None},
            source=source,
        )
        for name, *scores in table
    ]


#: Choice of `tupe table --published` -> its rows. Averages are over the columns that the table shows.
ROWS = {
    "base": _rows(_BASE, "TUPE, table 1"),
    "large": _rows(_LARGE, "TUPE, table 3"),
    "electra": _rows(_ELECTRA, "TUPE, table 4"),
    "diet": _rows(_DIET, "DIET, tables 2, 8 and 9"),
    "xtreme": _rows(_XTREME, "DIET, table 3", XTREME),
    "roberta": _rows(_ROBERTA, "fairseq's README"),
    "xlmr": _rows(_XLMR, "fairseq's README; XNLI by TRANSLATE-TRAIN-ALL", XTREME),
}
