"""Many runs and their tables: the fine-tunings of a benchmark, and in `study` a comparison of systems."""
