"""The training losses; importing this registers them with fairseq."""

from tupe.criterions.electra import TupeElectraCriterion
from tupe.criterions.masked_lm import TupeMaskedLmCriterion
from tupe.criterions.question_answering import TupeQuestionAnsweringCriterion
from tupe.criterions.sentence_prediction import TupeSentencePredictionCriterion
