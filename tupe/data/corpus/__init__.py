"""From text files to the data that fairseq trains on."""
