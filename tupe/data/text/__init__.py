"""Text processing before SentencePiece, the same for a corpus and for the tasks that are fine-tuned on it."""
