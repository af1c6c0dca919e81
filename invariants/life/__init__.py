"""The life family: buffers from their first use to their release."""
