"""The collectives family: what ranks send each other."""
