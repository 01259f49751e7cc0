"""Numbers as files show them."""


def rounded(node: object) -> object:
    """Return plain data with floats cut to six significant digits: more than figures carry, and readable."""
    if isinstance(node, float):
        return float(f"{node:.6g}")
    if isinstance(node, dict):
        return {key: rounded(value) for key, value in node.items()}
    return [rounded(value) for value in node] if isinstance(node, list) else node
