"""Fine-tuning of a pre-trained checkpoint: one run, the sweep of a benchmark, and its table."""
