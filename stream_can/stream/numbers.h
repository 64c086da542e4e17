// Numbers of a JSON array, text <-> double, by the C++ library; grammar and layout are msgspec's.
#ifndef STREAM_CAN_NUMBERS_H
#define STREAM_CAN_NUMBERS_H

#include <charconv>
#include <cmath>
#include <cstring>
#include <system_error>

// Defined where the library reads and writes double. Without it msgspec does both.
#if defined(__cpp_lib_to_chars) && !defined(WITHOUT_TO_CHARS)
#define HAS_TO_CHARS 1
#else
#define HAS_TO_CHARS 0
#endif

enum {
    WIDEST = 24  // characters of the longest number, such as -2.2250738585072014e-308
};

static inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

static inline const char *past_space(const char *p, const char *end)
{
    while (p != end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')) ++p;
    return p;
}

#if HAS_TO_CHARS

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

// The m numbers of an array; false where the text is anything else.
static bool read_numbers(const char *p, const char *end, double *numbers, Py_ssize_t m)
{
    p = past_space(p, end);
    for (Py_ssize_t i = 0; i < m; ++i) {
        if (p == end || *p != (i ? ',' : '[')) return false;
        p = read_number(past_space(p + 1, end), end, numbers + i);
        if (p == nullptr) return false;
        p = past_space(p, end);
    }
    return p != end && *p == ']' && past_space(p + 1, end) == end;
}

// One number as the shortest text that reads back equal; the end of it.
static inline char *write_number(double number, char *p)
{
    if (!std::isfinite(number)) {
        std::memcpy(p, "null", 4);
        return p + 4;
    }
    const double size = std::fabs(number);
    if (size == 0 || (size >= 1e-5 && size < 1e16)) {
        char *end = std::to_chars(p, p + WIDEST, number, std::chars_format::fixed).ptr;
        if (size == std::trunc(size)) {
            *end++ = '.';
            *end++ = '0';
        }
        return end;
    }
    // 1e+20 and 1e-07 there are 1e20 and 1e-7 here.
    char *end = std::to_chars(p, p + WIDEST, number, std::chars_format::scientific).ptr;
    char *sign = end - (end[-4] == 'e' ? 3 : 4);
    char *to = *sign == '-' ? sign + 1 : sign;
    const char *from = sign[1] == '0' ? sign + 2 : sign + 1;
    std::memmove(to, from, end - from);
    return to + (end - from);
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

static bool read_numbers(const char *, const char *, double *, Py_ssize_t) { return false; }
static Py_ssize_t write_numbers(const double *, Py_ssize_t, char *) { return 0; }

#endif
#endif
