"""Models that were pre-trained elsewhere, as this plugin's checkpoints: folders of fairseq and Transformers."""
