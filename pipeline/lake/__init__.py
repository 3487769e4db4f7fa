"""The lake: a folder of Parquet per table and batch, and the manifest that says which count."""
