"""The encoder in plain PyTorch, without fairseq: exported models carry these files."""
