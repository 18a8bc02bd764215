"""Inference with a trained model: predictions of test sets, answers to questions, translations and their scores."""
