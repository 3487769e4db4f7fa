"""The lake as one page of HTML."""
