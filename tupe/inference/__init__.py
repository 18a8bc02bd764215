"""Inference: predictions for test sets, answers to questions, and translations, with their scores."""
