"""Writes numbers for people: shares on a 0-100 scale with two decimals, as in R2MED's own tables."""

NOTHING = "–"


def points(value: float | None, decimals: int = 2) -> str:
    """Write a share: 0.42314 as `42.31`."""
    return NOTHING if value is None else f"{100 * value:.{decimals}f}"


def bound(value: float) -> str:
    """Write a tolerance, which is a share, without rounding it away: 0.00005 as `0.005`."""
    return f"{100 * value:g}"


def signed_points(value: float | None, decimals: int = 2) -> str:
    """Write a difference of shares with its sign: -0.01 as `−1.00`."""
    return NOTHING if value is None else f"{100 * value:+.{decimals}f}".replace("-", "−")


def interval(ends: tuple[float, float] | None) -> str:
    """Write the two ends of an interval of differences of shares, e.g. `−0.20 to +1.30`."""
    return NOTHING if ends is None else f"{signed_points(ends[0])} to {signed_points(ends[1])}"


def plain(value: float | None) -> str:
    """Write a figure that is not a share: 12.34567 as `12.3457`."""
    return NOTHING if value is None else f"{value:.4f}"


def signed_plain(value: float | None) -> str:
    """Write a difference of figures that are not shares: -1.5 as `−1.5000`."""
    return NOTHING if value is None else f"{value:+.4f}".replace("-", "−")


def plain_interval(ends: tuple[float, float] | None) -> str:
    """Write the two ends of an interval of differences of figures that are not shares, e.g. `−0.2000 to +1.3000`."""
    return NOTHING if ends is None else f"{signed_plain(ends[0])} to {signed_plain(ends[1])}"


def p_value(value: float | None) -> str:
    """Write a p-value with three decimals, and one that they would round to 0 as `< 0.001`."""
    if value is None:
        return NOTHING
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def count(value: int | None) -> str:
    """Write a number of things: 57359 as `57,359`."""
    return NOTHING if value is None else f"{value:,}"


def tenths(value: float | None) -> str:
    """Write seconds or a rate with one decimal: 1234.56 as `1,234.6`."""
    return NOTHING if value is None else f"{value:,.1f}"
