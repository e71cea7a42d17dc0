"""HTTP: thin routes that parse, call, and show."""
