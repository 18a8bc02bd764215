"""The family in every attention layer of an encoder-decoder, for fairseq's `translation` task (DIET, section 4)."""
