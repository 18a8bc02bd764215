"""The languages of XTREME's test sets, by their folder (Hu et al., 2020); XQuAD's Romanian came later."""

TEST_LANGUAGES = {
    "XNLI": ("ar", "bg", "de", "el", "en", "es", "fr", "hi", "ru", "sw", "th", "tr", "ur", "vi", "zh"),
    "XQuAD": ("ar", "de", "el", "en", "es", "hi", "ru", "th", "tr", "vi", "zh"),
    "MLQA": ("ar", "de", "en", "es", "hi", "vi", "zh"),
    "TyDiQA": ("ar", "bn", "en", "fi", "id", "ko", "ru", "sw", "te"),
}
