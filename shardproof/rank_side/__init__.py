"""What runs on a rank: it builds the tensors of a case, performs its program, and reports what it saw."""
