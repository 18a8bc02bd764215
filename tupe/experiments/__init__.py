"""The fine-tunings of a benchmark, and their tables."""
