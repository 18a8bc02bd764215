"""Fine-tuning of a pre-trained checkpoint: one run, the sweep of a benchmark, its table, and test-set predictions."""
