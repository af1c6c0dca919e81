"""Every law as a pytest test of its own: `pytest --pyargs shardproof.conformance --impl pkg.mod:attr`."""
