"""The encoder in plain PyTorch, without fairseq: exported models include these files."""
