"""From the official GLUE download to the folders that fairseq's sentence prediction reads."""
