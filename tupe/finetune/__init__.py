"""Fine-tune on the tasks of a benchmark, make the papers' tables, and predict test sets."""
