"""What the parts of the reference share: numbers that are the same on every machine, and rounding."""

from fractions import Fraction


def samples(seed, count, low, high):
    """A linear congruential generator (Numerical Recipes)."""
    for _ in range(count):
        seed = (seed * 1664525 + 1013904223) % 2**32
        yield low + (seed >> 8) % (high - low)


def nearest(value):
    """To the nearest integer, halves away from zero."""
    return int(value + Fraction(1, 2)) if value >= 0 else -int(-value + Fraction(1, 2))
