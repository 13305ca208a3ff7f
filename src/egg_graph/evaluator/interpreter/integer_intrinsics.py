"""libdevice's functions of integers and of bit patterns, in numpy."""

from collections.abc import Callable
from typing import Any

import numpy as np

HALF = np.uint64(32)
LOW = np.uint64(0xFFFFFFFF)


def unsigned(x: np.ndarray) -> np.ndarray:
    """View integers of any sign as unsigned ones of the same width."""
    return np.ascontiguousarray(x).view(f"uint{8 * x.dtype.itemsize}")


def count_ones(x: np.ndarray) -> np.ndarray:
    """`popc`: count the set bits of the two's complement."""
    return np.bitwise_count(unsigned(x)).astype(np.int32)


def leading_zeros(x: np.ndarray) -> np.ndarray:
    """`clz`: count the zeros above the highest set bit; all bits of 0 count."""
    bits = unsigned(x)
    if bits.dtype.itemsize == 8:
        high, low = (bits >> HALF).astype(np.uint32), (bits & LOW).astype(np.uint32)
        return np.where(high != 0, leading_zeros(high), 32 + leading_zeros(low)).astype(np.int32)
    return (32 - np.frexp(bits.astype(np.float64))[1]).astype(np.int32)


def first_set(x: np.ndarray) -> np.ndarray:
    """`ffs`: number the lowest set bit from 1; 0 where there is none."""
    bits = unsigned(x)
    lowest = bits & (~bits + bits.dtype.type(1))
    return (8 * bits.dtype.itemsize - leading_zeros(lowest)).astype(np.int32)


def reversed_bits(x: np.ndarray) -> np.ndarray:
    """`brev`: reverse the order of the bits."""
    bits = unsigned(x)
    width, one = 8 * bits.dtype.itemsize, bits.dtype.type(1)
    result = np.zeros_like(bits)
    for place in range(width):
        result |= ((bits >> bits.dtype.type(place)) & one) << bits.dtype.type(width - 1 - place)
    return result.view(x.dtype)


def high_product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`mulhi`: the upper half of the product."""
    if x.dtype.itemsize == 4:
        wide = np.int64 if x.dtype.kind == "i" else np.uint64
        return ((x.astype(wide) * y.astype(wide)) >> wide(32)).astype(x.dtype)
    high = _high_product_64(unsigned(x), unsigned(y))
    if x.dtype.kind == "i":
        high = high - np.where(x < 0, unsigned(y), np.uint64(0)) - np.where(y < 0, unsigned(x), np.uint64(0))
    return np.ascontiguousarray(high).view(x.dtype)


def _high_product_64(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    low, middle, other = (x & LOW) * (y & LOW), (x >> HALF) * (y & LOW), (x & LOW) * (y >> HALF)
    carry = (low >> HALF) + (middle & LOW) + (other & LOW)
    return (x >> HALF) * (y >> HALF) + (middle >> HALF) + (other >> HALF) + (carry >> HALF)


def unsigned_high_product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`tl.umulhi`: the upper half of the product of the operands read as unsigned integers."""
    return high_product(unsigned(x), unsigned(y)).view(x.dtype)


def product_of_24_bits(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`mul24`: the lower 32 bits of the product of the lower 24 bits."""
    eight = x.dtype.type(8)
    return ((x << eight) >> eight) * ((y << eight) >> eight)


def sum_of_difference(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """`sad`: |x - y| + z."""
    return (np.abs(x.astype(np.int64) - y.astype(np.int64)) + z.astype(np.int64)).astype(np.int32)


def half_sum(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`hadd`: the mean without overflow, rounded down."""
    return ((x.astype(np.int64) + y.astype(np.int64)) >> 1).astype(x.dtype)


def rounded_half_sum(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`rhadd`: the mean without overflow, rounded up."""
    return ((x.astype(np.int64) + y.astype(np.int64) + 1) >> 1).astype(x.dtype)


def permuted_bytes(x: np.ndarray, y: np.ndarray, selector: np.ndarray) -> np.ndarray:
    """`byte_perm`: pick four of the eight bytes of x and y by the low three bits of each selector nibble."""
    both = unsigned(x).astype(np.uint64) | (unsigned(y).astype(np.uint64) << HALF)
    result = np.zeros(both.shape, np.uint64)
    for place in range(4):
        index = (unsigned(selector).astype(np.uint64) >> np.uint64(4 * place)) & np.uint64(7)
        result |= ((both >> (index * np.uint64(8))) & np.uint64(0xFF)) << np.uint64(8 * place)
    return result.astype(np.uint32).view(np.int32)


def joined(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """`hiloint2double`: make a double of its two words."""
    return ((unsigned(high).astype(np.uint64) << HALF) | unsigned(low).astype(np.uint64)).view(np.float64)


def low_word(x: np.ndarray) -> np.ndarray:
    """`double2loint`: the lower word of a double."""
    return (unsigned(x) & LOW).astype(np.uint32).view(np.int32)


def high_word(x: np.ndarray) -> np.ndarray:
    """`double2hiint`: the upper word of a double."""
    return (unsigned(x) >> HALF).astype(np.uint32).view(np.int32)


def bits_as(target: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Make a function that reads the bits of its operand as another type of the same width."""
    return lambda x: np.ascontiguousarray(x).view(target)


FUNCTIONS: dict[str, Callable[..., np.ndarray]] = {
    "popc": count_ones, "clz": leading_zeros, "ffs": first_set, "brev": reversed_bits, "mulhi": high_product,
    "mul24": product_of_24_bits, "sad": sum_of_difference, "hadd": half_sum, "rhadd": rounded_half_sum,
    "byte_perm": permuted_bytes, "hiloint2double": joined, "double2loint": low_word, "double2hiint": high_word,
    "int_as_float": bits_as(np.float32), "uint_as_float": bits_as(np.float32), "float_as_int": bits_as(np.int32),
    "float_as_uint": bits_as(np.int32), "longlong_as_double": bits_as(np.float64),
    "double_as_longlong": bits_as(np.int64),
}  # fmt: skip
"""libdevice's name -> the function."""
