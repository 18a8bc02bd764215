"""GLUE with a pre-trained checkpoint: the sweep of fine-tuning runs, its table, and test-set predictions."""
