"""Files that lie on a server: `https://`, `http://`, `s3://`, `gs://`, `az://`, read in parts where they lie."""
