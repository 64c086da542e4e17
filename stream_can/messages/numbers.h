// Numbers of a JSON array, text <-> double. What is taken, and how it is written, is msgspec's rule.
#ifndef STREAM_CAN_NUMBERS_H
#define STREAM_CAN_NUMBERS_H

#include <charconv>
#include <cstdint>
#include <cstring>
#include <system_error>

// The macro says whether from_chars reads double. Where it does not, msgspec reads and writes all.
#if defined(__cpp_lib_to_chars) && defined(__SIZEOF_INT128__) && !defined(WITHOUT_FROM_CHARS)
#define HAS_FROM_CHARS 1
#else
#define HAS_FROM_CHARS 0
#endif

enum {
    WIDEST = 24,  // characters of the longest number, such as -2.2250738585072014e-308
    LEAST_POWER = -292,
    POWERS = 617
};

// 10^-292 to 10^324, the first 128 bits of each, rounded up: high, low. The module fills them in.
static uint64_t powers_of_ten[POWERS][2];

static inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

static inline const char *past_space(const char *p, const char *end)
{
    while (p != end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')) ++p;
    return p;
}

#if HAS_FROM_CHARS

// One number; its end, or null where msgspec is to say what is wrong with it, or how it is rounded.
static inline const char *read_number(const char *p, const char *end, double *number)
{
    // from_chars takes more than JSON does: nan, inf, 01 and 1.
    const char *digits = p != end && *p == '-' ? p + 1 : p;
    const char *q = digits;
    while (q != end && is_digit(*q)) ++q;
    if (q == digits || (*digits == '0' && q - digits > 1)) return nullptr;
    if (q != end && *q == '.' && (q + 1 == end || !is_digit(q[1]))) return nullptr;
    const auto [rest, error] = std::from_chars(p, end, *number);
    if (error != std::errc()) return nullptr;
    if (rest == digits + 1 && *digits == '0') *number = 0.0;  // -0 is an integer
    return rest;
}

// The m > 0 numbers of an array at p; its end, or null where the text is anything else.
static const char *read_numbers(const char *p, const char *end, double *numbers, Py_ssize_t m)
{
    for (Py_ssize_t i = 0; i < m; ++i) {
        if (p == end || *p != (i ? ',' : '[')) return nullptr;
        p = read_number(past_space(p + 1, end), end, numbers + i);
        if (p == nullptr) return nullptr;
        p = past_space(p, end);
    }
    return m > 0 && p != end && *p == ']' ? p + 1 : nullptr;
}

// g * c / 2^128, the last bit set where something was cut off.
static inline uint64_t times_power(const uint64_t *g, uint64_t c)
{
    const unsigned __int128 low = (unsigned __int128)g[1] * c;
    const unsigned __int128 sum = (unsigned __int128)g[0] * c + (uint64_t)(low >> 64);
    return (uint64_t)(sum >> 64) | ((uint64_t)sum > 1);
}

struct Decimal {
    uint64_t digits;
    int exponent;
};

// The shortest digits that read back as c * 2^q, of these the nearest to it (Giulietti, The
// Schubfach way to render doubles, 2020): a quarter of a unit of the last digit at a time.
static inline Decimal shortest(uint64_t c, int q, bool power_of_two)
{
    const int k = (q * 1262611 - (power_of_two ? 524031 : 0)) >> 22;
    const int h = q + ((-k * 1741647) >> 19) + 1;
    const uint64_t *g = powers_of_ten[-k - LEAST_POWER];
    const uint64_t odd = c & 1;
    const uint64_t least = times_power(g, (4 * c - (power_of_two ? 1 : 2)) << h) + odd;
    const uint64_t value = times_power(g, (4 * c) << h);
    const uint64_t most = times_power(g, (4 * c + 2) << h) - odd;
    const uint64_t below = value / 4, tens = below / 10;
    if (below >= 10) {
        const bool down = least <= 40 * tens, up = 40 * tens + 40 <= most;
        if (down != up) return {tens + up, k + 1};
    }
    const bool down = least <= 4 * below, up = 4 * below + 4 <= most;
    if (down != up) return {below + up, k};
    const uint64_t middle = 4 * below + 2;
    return {below + (value > middle || (value == middle && (below & 1))), k};
}

// Eight digits, leading zeros included.
static inline void write_eight(uint32_t number, char *p)
{
    static const char pairs[] =
        "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
        "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
    for (int i = 6; i >= 0; i -= 2) {
        std::memcpy(p + i, pairs + 2 * (number % 100), 2);
        number /= 100;
    }
}

// One number as the shortest text that reads back equal; the end of it.
static inline char *write_number(double number, char *p)
{
    uint64_t bits;
    std::memcpy(&bits, &number, 8);
    const int exponent = bits >> 52 & 0x7ff;
    const uint64_t fraction = bits & (((uint64_t)1 << 52) - 1);
    if (exponent == 0x7ff) {
        std::memcpy(p, "null", 4);
        return p + 4;
    }
    if (bits >> 63) *p++ = '-';
    if (number == 0) {
        std::memcpy(p, "0.0", 3);
        return p + 3;
    }
    const Decimal d =
        exponent ? shortest(fraction | (uint64_t)1 << 52, exponent - 1075, !fraction && exponent > 1)
                 : shortest(fraction, -1074, false);
    char seventeen[17];
    seventeen[0] = '0' + (char)(d.digits / 10000000000000000);
    write_eight(d.digits / 100000000 % 100000000, seventeen + 1);
    write_eight(d.digits % 100000000, seventeen + 9);
    const char *digits = seventeen, *end = seventeen + 17;
    while (*digits == '0') ++digits;
    const int point = (int)(end - digits) + d.exponent;  // digits before the decimal point
    while (end[-1] == '0') --end;
    const int length = (int)(end - digits);
    if (point > 16 || point <= -5) {
        *p++ = digits[0];
        if (length > 1) {
            *p++ = '.';
            std::memcpy(p, digits + 1, length - 1);
            p += length - 1;
        }
        *p++ = 'e';
        return std::to_chars(p, p + 4, point - 1).ptr;
    }
    if (point <= 0) {
        std::memcpy(p, "0.0000", 6);
        std::memcpy(p + 2 - point, digits, length);
        return p + 2 - point + length;
    }
    const int before = length < point ? length : point;
    std::memcpy(p, digits, before);
    std::memset(p + before, '0', point - before);
    p += point;
    *p++ = '.';
    if (length <= point) *p++ = '0';
    std::memcpy(p, digits + before, length - before);
    return p + (length - before);
}

// m numbers as an array; its length. At most m * (WIDEST + 1) + 2 characters.
static Py_ssize_t write_numbers(const double *numbers, Py_ssize_t m, char *text)
{
    char *p = text;
    *p++ = '[';
    for (Py_ssize_t i = 0; i < m; ++i) {
        if (i) *p++ = ',';
        p = write_number(numbers[i], p);
    }
    *p++ = ']';
    return p - text;
}

#else

static const char *read_numbers(const char *, const char *, double *, Py_ssize_t) { return nullptr; }
static Py_ssize_t write_numbers(const double *, Py_ssize_t, char *) { return 0; }
static const char *read_number(const char *, const char *, double *) { return nullptr; }
static char *write_number(double, char *p) { return p; }

#endif
#endif
