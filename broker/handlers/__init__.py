"""One file per API key: a request's fields in, a command or an answer out. Versions end here."""
