"""A pre-trained model made into another system: its words and layers go along, and so do its positions, where they can.

carry.py    copies, terms that start at zero, the scale of the queries, heads in order, the mean position in the words
fit.py      what positions at the input do in the attention of each layer, and its fit into the terms of a system
start.py    the new configuration, the steps in their order, and how close the features come to the old ones
"""
