"""Encoder-decoders with the position terms in every attention, for fairseq's `translation` task (DIET, section 4)."""
