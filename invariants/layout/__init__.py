"""The layout family: how a parameter is cut, judged by what the implementation says of its own layout."""
