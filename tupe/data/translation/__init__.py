"""From parallel text files to the data of fairseq's `translation` task."""
