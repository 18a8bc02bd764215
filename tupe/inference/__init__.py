"""Inference: predictions for test sets, and answers to questions, with their scores."""
