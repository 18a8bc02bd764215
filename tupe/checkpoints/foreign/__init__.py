"""Import models that were pre-trained by fairseq or Transformers as checkpoints of this plugin."""
