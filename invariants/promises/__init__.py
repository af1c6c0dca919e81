"""The promises family: what an implementation may promise beyond being correct."""
