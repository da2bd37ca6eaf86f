"""How numbers are written for people: measures on a 0-100 scale with two decimals, as in R2MED's own tables."""

NOTHING = "–"


def points(value: float | None) -> str:
    """Write a measure or a share, 0.42314 as `42.31`."""
    return NOTHING if value is None else f"{100 * value:.2f}"


def signed_points(value: float | None) -> str:
    """Write a difference with its sign, -0.01 as `−1.00`."""
    return NOTHING if value is None else f"{100 * value:+.2f}".replace("-", "−")


def p_value(value: float | None) -> str:
    if value is None:
        return NOTHING
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def rate(value: float | None) -> str:
    """Write documents per second: two decimals below 10, none from there on."""
    if value is None:
        return NOTHING
    return f"{value:,.2f}" if value < 10 else f"{value:,.0f}"
