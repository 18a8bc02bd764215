"""Extractive question answering: from SQuAD's JSON to windows of tokens, and from their spans to answers and scores."""
