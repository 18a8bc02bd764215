"""Compare systems on one budget: the runs, their records, and tables and figures of the records.

design      reads `configs/study/SIZE.yaml`: systems, seeds, the search of the learning rate; lists the runs
records     one JSON file for each finished run: its settings, its result, the machine
training    the command and the record of a pre-training
starting    the command and the record of a warm start
finetuning  the commands and the records of a sweep and of the costs
driver      does the missing runs, several at a time
statistics  interval of a mean; at which share of the updates a loss is reached
tables      the records as Markdown
figures     the records as curves
document    renders both between the marks of a document
"""
