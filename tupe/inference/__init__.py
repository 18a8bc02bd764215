"""What a trained model is asked: predictions of test sets, answers to questions, translations and their scores."""
