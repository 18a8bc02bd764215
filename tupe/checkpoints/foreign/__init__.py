"""Models that were pre-trained elsewhere, as checkpoints of ours: fairseq's released folders, and Transformers'.

names         parameters: tables of their names -> ours
fairseq       a folder of fairseq: `model.pt`, `dict.txt`, the files of its tokenizer
transformers  a folder of Transformers: `config.json`, the weights, the files of its tokenizer
model         what both read: the fields of our configuration and the weights under our names
vocabulary    symbols and rows of the embeddings in the order of fairseq's dictionaries, by their roles
tokenizer     the files of a tokenizer as those of a corpus folder
head          a classification head that is kept, its classes in the order of our tasks
verify        outputs of the original and of the checkpoint on the same texts
importing     the command: a folder is read, checked and written
"""
