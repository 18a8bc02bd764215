"""A pre-trained model made into another system: its words and layers go along, and so do its positions, where they can.

target.py   the configuration of the new model; whether its outputs are the old model's
carry.py    what goes along: copies, terms that start at zero, the scale of the queries, heads in order, norms
logits.py   what positions at the input do in the attention of each layer
fit.py      these logits into the terms of another system
start.py    the steps in their order
"""
