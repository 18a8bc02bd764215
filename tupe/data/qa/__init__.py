"""Extractive question answering: from SQuAD's JSON to windows of pieces, and from their spans to answers and scores."""
