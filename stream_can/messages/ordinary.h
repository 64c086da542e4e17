/* Ordinary messages: JSON objects whose probabilities are an array, or an object of all classes. What is not read here, msgspec reads; so nothing is
   accepted that it would refuse, and anything unusual is left to it. */
#ifndef STREAM_CAN_ORDINARY_H
#define STREAM_CAN_ORDINARY_H

#include <Python.h>
#include <stdint.h>
#include <string.h>

enum {
    MOST_FIELDS = 32,
    DEEPEST = 32
};

typedef struct {
    const char *at;
    Py_ssize_t size;
} Span;

/* Key, without quotes, and text of the value. */
typedef struct {
    Span key, value;
} Field;

/* Names that a message may have: of the probabilities, the label, the id, and of what an answer adds; size -1 for
   none. */
enum { PROBS, LABEL, ID, RAW, ADDED = RAW, ASK, SET, NAMES };

typedef struct {
    int n;
    int found[NAMES]; /* which field has the name; -1 for none */
    int ascii;
} Object;

/* Reads m numbers of an array, or one number; their end, or NULL. */
typedef const char *(*ReadRow)(const char *p, const char *end, double *numbers, Py_ssize_t m);
typedef const char *(*ReadNumber)(const char *p, const char *end, double *number);

/* Writes them; how many characters they took. */
typedef Py_ssize_t (*WriteRow)(const double *numbers, Py_ssize_t m, char *text);
typedef Py_ssize_t (*WriteNumber)(double number, char *text);

/* Rows of m numbers: how they are read and written; names of the classes, without quotes, and in what order objects of
   this batch have them. */
typedef struct {
    Py_ssize_t m;
    ReadRow read;
    ReadNumber read_one;
    WriteRow write;
    WriteNumber write_one;
    const Span *names;
    Py_ssize_t *order;
    int known; /* the order */
} Rows;

static inline const char *to_text(const char *p, const char *end)
{
    while (p != end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')) ++p;
    return p;
}

/* The value of four hexadecimal digits; -1 for others. */
static int32_t four_digits(const char *p, const char *end)
{
    int32_t value = 0;
    if (end - p < 4) return -1;
    for (int i = 0; i < 4; ++i) {
        char c = p[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (digit < 0) return -1;
        value = 16 * value + digit;
    }
    return value;
}

/* Behind the escape whose backslash is at p. */
static const char *past_escape(const char *p, const char *end)
{
    if (end - p < 2) return NULL;
    if (p[1] != 'u') return p[1] != 0 && strchr("\"\\/bfnrt", p[1]) ? p + 2 : NULL;
    int32_t unit = four_digits(p + 2, end);
    if (unit < 0 || (unit >= 0xdc00 && unit < 0xe000)) return NULL;
    if (unit < 0xd800 || unit >= 0xe000) return p + 6;
    if (end - p < 12 || p[6] != '\\' || p[7] != 'u') return NULL;
    unit = four_digits(p + 8, end);
    return unit >= 0xdc00 && unit < 0xe000 ? p + 12 : NULL;
}

/* Behind the string whose first quote is at p; escapes are counted. */
static const char *past_string(const char *p, const char *end, int *ascii, int *escapes)
{
    unsigned char high = 0;
    for (++p; p != end;) {
        unsigned char c = (unsigned char)*p;
        high |= c;
        if (c == '"') {
            *ascii &= !(high & 0x80);
            return p + 1;
        }
        if (c < 0x20) return NULL;
        if (c == '\\') {
            ++*escapes;
            if ((p = past_escape(p, end)) == NULL) return NULL;
        } else {
            ++p;
        }
    }
    return NULL;
}

static const char *past_digits(const char *p, const char *end)
{
    const char *first = p;
    while (p != end && *p >= '0' && *p <= '9') ++p;
    return p == first ? NULL : p;
}

static const char *past_number(const char *p, const char *end)
{
    if (*p == '-') ++p;
    const char *first = p;
    if ((p = past_digits(p, end)) == NULL || (*first == '0' && p - first > 1)) return NULL;
    if (p != end && *p == '.' && (p = past_digits(p + 1, end)) == NULL) return NULL;
    if (p != end && (*p | 32) == 'e') {
        ++p;
        if (p != end && (*p == '+' || *p == '-')) ++p;
        p = past_digits(p, end);
    }
    return p;
}

static const char *past_word(const char *p, const char *end, const char *word)
{
    size_t size = strlen(word);
    return (size_t)(end - p) >= size && memcmp(p, word, size) == 0 ? p + size : NULL;
}

/* Behind the value at p; NULL where it is none. */
static const char *past_value(const char *p, const char *end, int *ascii, int depth)
{
    int escapes = 0;
    if (p == end || depth > DEEPEST) return NULL;
    switch (*p) {
    case '"': return past_string(p, end, ascii, &escapes);
    case 't': return past_word(p, end, "true");
    case 'f': return past_word(p, end, "false");
    case 'n': return past_word(p, end, "null");
    case '[':
    case '{': {
        char close = *p == '[' ? ']' : '}';
        p = to_text(p + 1, end);
        if (p != end && *p == close) return p + 1;
        for (;;) {
            if (close == '}') {
                if (p == end || *p != '"' || (p = past_string(p, end, ascii, &escapes)) == NULL) return NULL;
                p = to_text(p, end);
                if (p == end || *p != ':') return NULL;
                p = to_text(p + 1, end);
            }
            if ((p = past_value(p, end, ascii, depth + 1)) == NULL) return NULL;
            p = to_text(p, end);
            if (p == end) return NULL;
            if (*p == close) return p + 1;
            if (*p != ',') return NULL;
            p = to_text(p + 1, end);
        }
    }
    default: return *p == '-' || (*p >= '0' && *p <= '9') ? past_number(p, end) : NULL;
    }
}

static inline int same(Span a, Span b) { return a.size == b.size && memcmp(a.at, b.at, (size_t)a.size) == 0; }

/* Which class has the name, of those that are not among the first k of the order; -1 for none. */
static Py_ssize_t class_of(Span name, const Rows *rows, Py_ssize_t k)
{
    for (Py_ssize_t i = 0; i < rows->m; ++i) {
        if (!same(rows->names[i], name)) continue;
        for (Py_ssize_t j = 0; j < k; ++j)
            if (rows->order[j] == i) return -1;
        return i;
    }
    return -1;
}

/* Behind the object at p, which names every class once, in the order of the objects before it; NULL for others. */
static const char *read_named(const char *p, const char *end, Rows *rows, double *row)
{
    for (Py_ssize_t k = 0; k < rows->m; ++k) {
        if (p == end || *p != (k ? ',' : '{')) return NULL;
        p = to_text(p + 1, end);
        if (p == end || *p != '"') return NULL;
        Span name = {p + 1, 0};
        for (++p; p != end && *p != '"';) ++p;
        name.size = p - name.at;
        if (!rows->known) rows->order[k] = class_of(name, rows, k);
        Py_ssize_t column = rows->order[k];
        if (p == end || column < 0 || !same(rows->names[column], name)) return NULL;
        p = to_text(p + 1, end);
        if (p == end || *p != ':') return NULL;
        p = to_text(p + 1, end);
        if (p == end || (p = rows->read_one(p, end, row + column)) == NULL) return NULL;
        p = to_text(p, end);
    }
    rows->known = 1;
    return p != end && *p == '}' ? p + 1 : NULL;
}

static Py_ssize_t write_named(const Rows *rows, const double *row, char *text)
{
    char *p = text;
    for (Py_ssize_t k = 0; k < rows->m; ++k) {
        Py_ssize_t column = rows->order[k];
        Span name = rows->names[column];
        *p++ = k ? ',' : '{';
        *p++ = '"';
        memcpy(p, name.at, (size_t)name.size);
        p += name.size;
        *p++ = '"';
        *p++ = ':';
        p += rows->write_one(row[column], p);
    }
    *p++ = '}';
    return p - text;
}

/* The fields of an object, and the row of its probabilities where these are m numbers; 0 for anything else, and where a
   key has an escape or occurs twice. */
static int read_object(const char *p, const char *end, const Span *names, Rows *rows, double *row, Field *fields,
                       Object *object)
{
    object->n = 0;
    object->ascii = 1;
    for (int i = 0; i < NAMES; ++i) object->found[i] = -1;
    p = to_text(p, end);
    if (p == end || *p != '{') return 0;
    do {
        int escapes = 0, n = object->n;
        p = to_text(p + 1, end);
        if (p == end || *p != '"' || n == MOST_FIELDS) return 0;
        Field *field = fields + n;
        field->key.at = p + 1;
        if ((p = past_string(p, end, &object->ascii, &escapes)) == NULL || escapes) return 0;
        field->key.size = p - 1 - field->key.at;
        for (int i = 0; i < n; ++i)
            if (same(fields[i].key, field->key)) return 0;
        p = to_text(p, end);
        if (p == end || *p != ':') return 0;
        p = to_text(p + 1, end);
        for (int i = 0; i < NAMES; ++i)
            if (same(names[i], field->key)) object->found[i] = n;
        field->value.at = p;
        if (object->found[PROBS] != n) p = past_value(p, end, &object->ascii, 0);
        else if (p != end && *p == '{') p = read_named(p, end, rows, row);
        else p = rows->read(p, end, row, rows->m);
        if (p == NULL) return 0;
        field->value.size = p - field->value.at;
        object->n = n + 1;
        p = to_text(p, end);
        if (p == end) return 0;
    } while (*p == ',');
    return *p == '}' && to_text(p + 1, end) == end;
}

/* The text of an id as messages have it: an integer, or what a string without escapes holds. Size -1 for null, -2 for
   others. */
static Span id_of(Span value)
{
    Span id = value;
    if (*value.at == '"') {
        id.at += 1;
        id.size -= 2;
        const char *tail = id.at + id.size - 2;
        if (id.size > 2 && tail[0] == '.' && tail[1] == '0') id.size = -2; /* a float as text, likewise */
        else if (memchr(id.at, '\\', (size_t)id.size)) id.size = -2;
    } else if (*value.at == 'n') {
        id.size = -1;
    } else if (*value.at != '-' && (*value.at < '0' || *value.at > '9')) {
        id.size = -2;
    } else {
        for (const char *p = value.at; p < value.at + value.size; p++)
            if (*p == '.' || *p == 'e' || *p == 'E') id.size = -2; /* a float, which may be an integer's id */
    }
    return id;
}

static inline char *put_text(char *to, const char *text, Py_ssize_t size)
{
    memcpy(to, text, (size_t)size);
    return to + size;
}

/* The object with another row; behind the rest the fields `more`, and the original row under the name `raw`, which has
   its quotes; size 0 for none. The length of it. */
static Py_ssize_t write_object(const Field *fields, const Object *object, const Rows *rows, const double *row, Span more,
                               Span raw, char *text)
{
    char *p = text;
    for (int i = 0; i < object->n; ++i) {
        const Field *field = fields + i;
        *p++ = i ? ',' : '{';
        p = put_text(p, field->key.at - 1, field->key.size + 2);
        *p++ = ':';
        if (i != object->found[PROBS]) p = put_text(p, field->value.at, field->value.size);
        else if (*field->value.at == '{') p += write_named(rows, row, p);
        else p += rows->write(row, rows->m, p);
    }
    if (more.size) p = put_text(p, more.at, more.size);
    if (raw.size) {
        *p++ = ',';
        p = put_text(p, raw.at, raw.size);
        *p++ = ':';
        p = put_text(p, fields[object->found[PROBS]].value.at, fields[object->found[PROBS]].value.size);
    }
    *p++ = '}';
    return p - text;
}

#endif
