"""What is done to text before SentencePiece sees it: the same for a corpus and for the tasks fine-tuned on it."""
