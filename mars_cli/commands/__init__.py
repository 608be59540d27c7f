"""One file a command; each has a click command named `command`."""
