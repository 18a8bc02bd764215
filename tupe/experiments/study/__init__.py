"""Compare systems on one budget: the runs, the record that each leaves, and tables and figures of the records.

design      `configs/study/SIZE.yaml`: systems, seeds, the search of the learning rate; the runs in their order
records     one JSON file a run, of its settings alone
training    a pre-training as a command, and what it leaves
starting    a checkpoint made into another system, the same
finetuning  a sweep and the costs, the same
driver      what is missing, several at a time
statistics  mean, spread, interval; at which share of the updates a loss is reached
tables      what is known, as Markdown
figures     and as curves
document    both put where a document has their marks
"""
