"""Many runs of one thing, and tables of them: the fine-tunings of a benchmark, and below `study` systems compared."""
