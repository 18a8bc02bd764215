"""Run an imported model and the original on the same tokens, and compare what they say."""

from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor

from tupe.checkpoints.foreign import fairseq
from tupe.checkpoints.foreign.model import Foreign
from tupe.checkpoints.foreign.vocabulary import Vocabulary
from tupe.data.corpus.tokenizers import Tokenizer
from tupe.models.summary import dictionary_of_size
from tupe.models.tupe import TupeModel
from tupe.safe_load import safe_load
from tupe.util import UserError

#: What is compared: a text, a pair, and a text whose pieces are rare.
TEXTS = (
    ("The capital of France is a city on the Seine.",),
    ("Where was she born?", "Marie Curie was born in Warsaw, in 1867."),
    ("Ünïcode — 你好，世界 and naïve façades cost 12.50 €…",),
)
#: The largest difference that rounding makes, as a share of the largest value.
TOLERANCE = 1e-4
_BOS, _PAD, _EOS = 0, 1, 2


def verify(
    folder: Path,
    foreign: Foreign,
    model: TupeModel,
    vocabulary: Vocabulary,
    tokenizer: Tokenizer | None,
    head: str | None = None,
) -> str:
    """Compare features, logits and the scores of a head, of `TEXTS` or, without a tokenizer, of drawn tokens.

    Raises:
        UserError: they differ by more than rounding does.
    """
    tokens = _tokens(tokenizer, len(vocabulary.symbols), model.args)
    rows = torch.tensor(vocabulary.rows)
    words = tokens != _PAD
    with torch.no_grad():
        encoder = model.encoder.sentence_encoder
        segments = None if encoder.input_segments is None else encoder.segments(tokens).long()
        if foreign.path.name == fairseq.WEIGHTS:
            theirs = _run_fairseq(folder, foreign, model.args, head, rows[tokens])
        else:
            theirs = _run_transformers(folder, foreign, head, rows[tokens], words, segments)
        ours = {"features": model(tokens, features_only=True)[0][words]}
        if "logits" in theirs:
            ours["logits"], theirs["logits"] = model(tokens)[0][words], theirs["logits"][..., rows]
        if head in model.classification_heads and "head" in theirs:
            ours["head"] = model(tokens, features_only=True, classification_head_name=head)[0]
            ours["head"], theirs["head"] = ours["head"].sort().values, theirs["head"].sort().values  # in another order
    found = []
    for name, value in ours.items():
        wanted = theirs[name][words] if name != "head" else theirs[name]
        difference, largest = float((value - wanted).abs().max()), float(wanted.abs().max())
        found.append(f"{name} differ by {difference:.1e} of {largest:.3g}")
        if not difference <= TOLERANCE * largest:
            raise UserError(
                f"The {name} of {folder} and of its import differ by {difference:.2g}, where the largest is "
                f"{largest:.3g}. Something in this model has no counterpart here. Please report its config.json."
            )
    return f"verified on {len(tokens)} sequences: {', '.join(found)}"


def _tokens(tokenizer: Tokenizer | None, symbols: int, args: Namespace) -> Tensor:
    """Return the sequences that are compared, `(3, T)`, in our numbers."""
    if tokenizer is None:
        draw = torch.Generator().manual_seed(1)
        texts = [[torch.randint(4, symbols - 1, (9,), generator=draw).tolist()] * len(texts) for texts in TEXTS]
    else:
        texts = [[tokenizer(text) for text in texts] for texts in TEXTS]
    sequences = []
    for first, *others in texts:
        sequence = [_BOS, *first, _EOS]
        for other in others:
            sequence += [*[_EOS] * (args.pair_separators - 1), *other, _EOS]
        sequences.append(torch.tensor(sequence[: args.max_positions]))
    return torch.nn.utils.rnn.pad_sequence(sequences, batch_first=True, padding_value=_PAD)


def _run_fairseq(
    folder: Path, foreign: Foreign, ours: Namespace, head: str | None, tokens: Tensor
) -> dict[str, Tensor]:
    """Return what the original says of `tokens`, in its own numbers; `ours` are the arguments of our model."""
    from fairseq.models.roberta.model import RobertaModel, base_architecture

    names = ("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads", "activation_fn")
    names += ("pooler_activation_fn", "encoder_normalize_before", "untie_weights_roberta", "max_positions")
    args = Namespace(**{name: getattr(ours, name) for name in names}, data="")
    args.tokens_per_sample = args.max_positions
    base_architecture(args)
    state = safe_load(folder / fairseq.WEIGHTS, fairseq.METERS)["model"]
    symbols = next(len(tensor) for name, tensor in state.items() if name.endswith("embed_tokens.weight"))
    task = SimpleNamespace(source_dictionary=dictionary_of_size(symbols))
    original = RobertaModel.build_model(args, task).eval()
    if head is not None:
        original.register_classification_head(head, num_classes=len(foreign.head["out_proj.weight"]))
    original.load_state_dict(state, strict=False)  # some files lack the decoder, tied to the embedding
    found = {"features": original(tokens, features_only=True)[0]}
    if foreign.has_lm_head:
        found["logits"] = original(tokens)[0]
    if head is not None:
        found["head"] = original(tokens, classification_head_name=head)[0]
    return found


def _run_transformers(
    folder: Path, foreign: Foreign, head: str | None, tokens: Tensor, words: Tensor, segments: Tensor | None
) -> dict[str, Tensor]:
    """Return what the original says of `tokens`, in its own numbers; `words` are those that are no padding."""
    import tupe.transformers  # hides a torchaudio that does not load  # noqa: F401, I001
    import transformers

    transformers.logging.set_verbosity_error()  # it lists what a head leaves out, which is said here
    transformers.logging.disable_progress_bar()

    def load(auto: type) -> torch.nn.Module:
        options = {"local_files_only": True, "trust_remote_code": False, "dtype": torch.float32}
        return auto.from_pretrained(folder, **options).eval()

    original = load(transformers.AutoModelForMaskedLM if foreign.has_lm_head else transformers.AutoModel)
    inputs = {"input_ids": tokens, "attention_mask": words.long()}
    if segments is not None:
        inputs["token_type_ids"] = segments
    found = {"features": original.base_model(**inputs).last_hidden_state}
    if foreign.has_lm_head:
        found["logits"] = original(**inputs).logits
    if head is not None:
        found["head"] = load(transformers.AutoModelForSequenceClassification)(**inputs).logits
    return found
