"""Questions to a lake, answered with pyarrow alone."""
