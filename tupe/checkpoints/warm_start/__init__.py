"""Convert a pre-trained model to another position encoding: copy content and layers, copy or fit the positions.

carry.py    copies, terms that start at zero, the scale of the queries, heads in order, the mean position
fit.py      the effect of added positions on the attention of each layer, and its fit into the terms of a system
start.py    the new configuration, the steps in their order, and how close the features come to the old ones
"""
