"""Models that were pre-trained elsewhere, as checkpoints of ours: fairseq's released folders, and Transformers'."""
