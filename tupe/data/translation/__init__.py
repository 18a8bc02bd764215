"""Parallel text files to what fairseq's `translation` task reads."""
