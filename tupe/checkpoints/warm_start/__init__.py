"""A pre-trained model made into another system: its words and layers go along, and so do its positions, where they can.

target.py   the configuration of the new model; whether its outputs are the old model's; what is refused
carry.py    what goes along as it is: copies, terms that start at zero, the scale of the queries, the order of heads
start.py    the steps in their order
"""
