"""Implementations in Python packages, for `check.py --call`.

`fastcdc` and `pyfastcdc` are the packages of PyPI.
"""


def parameters(spec, name):
    """Returns the parameters of a spec of the algorithm `name`, or None if it is one of another."""
    found, _, text = spec.partition(":")
    return dict(part.split("=") for part in text.split(",")) if found == name else None


def fastcdc(spec, data):
    """PyPI fastcdc: the algorithm `ronomon`."""
    from fastcdc import fastcdc

    if (wanted := parameters(spec, "ronomon")) is None:
        return None
    sizes = {"min_size": int(wanted["min"]), "avg_size": int(wanted["average"]), "max_size": int(wanted["max"])}
    return [chunk.offset + chunk.length for chunk in fastcdc(data, **sizes)]


def pyfastcdc(spec, data):
    """PyPI pyfastcdc: FastCDC with any level and seed."""
    from pyfastcdc import FastCDC

    wanted = parameters(spec, "fastcdc")
    if wanted is None or "form" in wanted:
        return None
    sizes = {"min_size": int(wanted["min"]), "avg_size": int(wanted["normal"]), "max_size": int(wanted["max"])}
    try:
        chunker = FastCDC(**sizes, normalized_chunking=int(wanted["level"]), seed=int(wanted["seed"], 0))
    except (OverflowError, ValueError):
        # Large seeds and some sizes are refused.
        return None
    return [chunk.offset + chunk.length for chunk in chunker.cut_buf(data)]
