/* Passes over words and lines that are many short calls in NumPy (ADR 0037).
 *
 * Every function is a loop over what it is given: no memory is allocated, no state is kept, nothing is random, and no
 * index depends on a word that is a secret, but for `take` and `put`, whose order is a mask's permutation, as NumPy's
 * is. `kernels/words.py` and `kernels/lines.py` say what each computes and hold the same in NumPy. A line is a row of
 * an array whose rows are `step` numbers apart.
 */

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_CPU __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EACH_CPU
#endif

#define VERSION 7

int64_t passes_version(void) { return VERSION; }

static inline double as_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint64_t as_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Words ------------------------------------------------------------------------------------------------------------ */

#define SOME 512

/* round(scale Y) as words, plus a whole number from -places / 2 to places / 2 - 1, where places is the unit in the last
 * place of the scaled entry, `least` / 2^52 or more; none where that is one. Returns how many entries are beyond. */
FOR_EACH_CPU
int64_t encode_filled(const double *Y, int64_t rows, int64_t width, int64_t step, double scale, double most,
                      double least, const int16_t *bits, uint64_t *words, int64_t words_step)
{
    int64_t beyond = 0;
    double entries[SOME], random[SOME];
    for (int64_t i = 0; i < rows; i++)
        for (int64_t first = 0; first < width; first += SOME) {
            int64_t count = width - first < SOME ? width - first : SOME;
            const double *y = Y + i * step + first;
            const int16_t *given = bits + i * width + first;
            int64_t *to = (int64_t *)words + i * words_step + first;
            for (int64_t j = 0; j < count; j++)
                random[j] = given[j];
            for (int64_t j = 0; j < count; j++) {
                double entry = y[j] * scale;
                double power = as_double(as_bits(entry) & 0x7FF0000000000000u);
                beyond += !(fabs(entry) <= most);
                power = power > least ? power : least;
                power = power > 0x1p52 ? power : 0.0;
                entries[j] = rint(entry);
                random[j] = floor(random[j] * 0x1p-68 * power);
            }
            for (int64_t j = 0; j < count; j++)
                to[j] = (int64_t)entries[j] + (int64_t)random[j];
        }
    return beyond;
}

/* Words as signed numbers times `scale`; `numbers` may be where the words are. Returns how many are beyond `most`. */
FOR_EACH_CPU
int64_t decode(const uint64_t *words, int64_t count, double scale, int64_t most, double *numbers)
{
    int64_t beyond = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t word = (int64_t)words[i];
        beyond += (word > most) | (word < -most);
        numbers[i] = (double)word * scale;
    }
    return beyond;
}

FOR_EACH_CPU
void add_words(uint64_t *onto, const uint64_t *words, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        onto[i] += words[i];
}

FOR_EACH_CPU
void subtract_words(uint64_t *from, const uint64_t *words, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        from[i] -= words[i];
}

/* (w >> 12) + 1/2, times 2^-52, over the words; a number below 2^52 stands in the last bits of 2^52 plus it. */
FOR_EACH_CPU
void uniforms(uint64_t *words, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        double whole = as_double((words[i] >> 12) | 0x4330000000000000u) - 0x1p52;
        words[i] = as_bits((whole + 0.5) * 0x1p-52);
    }
}

/* Words of two halves ---------------------------------------------------------------------------------------------- */

typedef unsigned __int128 word;

/* `count` words of two halves, low half first: onto += words, or, with `minus`, onto -= words. */
void combine_halves(uint64_t *onto, const uint64_t *words, int64_t count, int64_t minus)
{
    uint64_t turned = -(uint64_t)(minus != 0); /* -w is its complement plus one */
    for (int64_t i = 0; i < 2 * count; i += 2) {
        word term = (word)(words[i + 1] ^ turned) << 64 | (words[i] ^ turned);
        term += ((word)onto[i + 1] << 64 | onto[i]) + (turned & 1);
        onto[i] = (uint64_t)term, onto[i + 1] = (uint64_t)(term >> 64);
    }
}

/* `count` words of `halves` each: onto += the first `plus` rows of `words`, and -= those up to `rows`. */
FOR_EACH_CPU
void combine_rows(uint64_t *onto, const uint64_t *words, int64_t plus, int64_t rows, int64_t apart, int64_t count,
                  int64_t halves)
{
    for (int64_t row = 0; row < rows; row++, words += apart) {
        uint64_t turned = -(uint64_t)(row >= plus); /* -w is its complement plus one */
        if (halves == 1)
            for (int64_t i = 0; i < count; i++)
                onto[i] += (words[i] ^ turned) + (turned & 1);
        else if (halves == 2)
            combine_halves(onto, words, count, row >= plus);
        else
            for (int64_t i = 0; i < count; i++) {
                uint64_t carry = turned & 1;
                for (int64_t at = i * halves; at < (i + 1) * halves; at++) {
                    word sum = (word)onto[at] + (words[at] ^ turned) + carry;
                    onto[at] = (uint64_t)sum, carry = (uint64_t)(sum >> 64);
                }
            }
    }
}

/* rint(scale value) plus noise, where there is some, as words of two halves. Returns how many are beyond `most`. */
FOR_EACH_CPU
int64_t to_halves(const double *values, int64_t count, double scale, double most, const int64_t *noise, uint64_t *words)
{
    int64_t beyond = 0;
    for (int64_t i = 0; i < count; i++) {
        double whole = rint(values[i] * scale), size = fabs(whole), high = floor(size * 0x1p-64);
        beyond += !(size <= most);
        high = size <= most ? high : 0.0, size = size <= most ? size : 0.0;
        word value = (word)(uint64_t)high << 64 | (uint64_t)(size - high * 0x1p64); /* some of its own 53 bits */
        word sign = -(word)(whole < 0.0);
        value = (value ^ sign) - sign;
        value += (word)(__int128)(noise ? noise[i] : 0);
        words[2 * i] = (uint64_t)value;
        words[2 * i + 1] = (uint64_t)(value >> 64);
    }
    return beyond;
}

/* Words of two halves as signed numbers, each rounded once, times `scale`, a power of two. */
void from_halves(const uint64_t *words, int64_t count, double scale, double *numbers)
{
    for (int64_t i = 0; i < count; i++)
        numbers[i] = (double)(__int128)((word)words[2 * i + 1] << 64 | words[2 * i]) * scale;
}

/* The sum of keys times signed words of one half or two, modulo 2^192, into three halves. */
void tag(const uint64_t *words, int64_t count, int64_t halves, const uint64_t *keys, uint64_t *sum)
{
    uint64_t first = 0, second = 0, third = 0;
    for (int64_t i = 0; i < count; i++) {
        uint64_t key = keys[i], low = words[i * halves], negative = (uint64_t)((int64_t)words[i * halves + halves - 1] >> 63);
        uint64_t high = halves == 2 ? words[2 * i + 1] : negative;
        word below = (word)key * low, above = (word)key * high - ((word)(key & negative) << 64);
        word carried = (word)first + (uint64_t)below;
        first = (uint64_t)carried;
        carried = (word)second + (uint64_t)(below >> 64) + (uint64_t)above + (uint64_t)(carried >> 64);
        second = (uint64_t)carried;
        third += (uint64_t)(above >> 64) + (uint64_t)(carried >> 64);
    }
    sum[0] = first, sum[1] = second, sum[2] = third;
}

/* Gram matrices ---------------------------------------------------------------------------------------------------- */

FOR_EACH_CPU
void add_whole(int64_t *sums, const double *numbers, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        sums[i] += (int64_t)numbers[i];
}

/* The word of one entry of `sums`, five blocks of `size`: values of a polynomial of degree four at 0, infinity, 1, -1
 * and, times 16, at 1/2, from which its coefficients follow; it is evaluated at 2^-21, in units of 2^-84. */
static inline word word_of(const int64_t *sums, int64_t size)
{
    int64_t zero = sums[0], last = sums[size], one = sums[2 * size], other = sums[3 * size], half = sums[4 * size];
    int64_t odd = (one - other) / 2, second = (one + other) / 2 - zero - last;
    /* Three times the first: a multiple of 3 times the inverse of 3 modulo 2^64. */
    uint64_t thrice = (uint64_t)((half - 16 * zero - 4 * second - last) / 2 - odd);
    int64_t first = (int64_t)(thrice * 0xAAAAAAAAAAAAAAABu);
    word value = (word)(__int128)zero << 84;
    value += (word)(__int128)first << 63;
    value += (word)(__int128)second << 42;
    value += (word)(__int128)(odd - first) << 21;
    return value + (word)(__int128)last;
}

/* Words of `sums`, five blocks of (rows, width): those of row i, from its column `skip[i]` on, to `at[i]` + column. */
void gram_words(const int64_t *sums, int64_t rows, int64_t width, const int64_t *at, const int64_t *skip,
                uint64_t *words)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = skip[i]; j < width; j++) {
            word value = word_of(sums + i * width + j, rows * width);
            words[2 * (at[i] + j)] = (uint64_t)value;
            words[2 * (at[i] + j) + 1] = (uint64_t)(value >> 64);
        }
}

/* What these words leave of those of G, the upper triangle of an m x m matrix by rows, as numbers: entry (i, j) is that
 * of row and column `row_at[i]`, `column_at[j]` of G. Without `sums` it is G's own. */
void gram_left(const int64_t *sums, int64_t rows, int64_t width, const uint64_t *G, int64_t m, const int64_t *row_at,
               const int64_t *column_at, double *left, int64_t step)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < width; j++) {
            int64_t a = row_at[i], b = column_at[j];
            int64_t low = a < b ? a : b, high = a < b ? b : a;
            const uint64_t *of = G + 2 * (low * (2 * m - 1 - low) / 2 + high);
            word value = (word)of[1] << 64 | of[0];
            if (sums)
                value -= word_of(sums + i * width + j, rows * width);
            left[i * step + j] = (double)(__int128)value * 0x1p-126;
        }
}

/* Lines ------------------------------------------------------------------------------------------------------------ */

FOR_EACH_CPU
void sign(double *lines, int64_t count, int64_t length, int64_t step, const int8_t *signs)
{
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < length; j++)
            lines[i * step + j] *= signs[j];
}

void take(const double *from, int64_t count, int64_t length, int64_t step, const int64_t *order, double *to,
          int64_t to_step)
{
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < length; j++)
            to[i * to_step + j] = from[i * step + order[j]];
}

void put(const double *from, int64_t count, int64_t length, int64_t step, const int64_t *order, double *to,
         int64_t to_step)
{
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < length; j++)
            to[i * to_step + order[j]] = from[i * step + j];
}

#define TILE 16

/* Rows, (count, width), as lines, (width, count), in tiles that stay in a cache. */
FOR_EACH_CPU
void transpose(const double *rows, int64_t count, int64_t width, int64_t step, double *lines, int64_t lines_step)
{
    for (int64_t j = 0; j < width; j += TILE)
        for (int64_t i = 0; i < count; i += TILE) {
            int64_t down = count - i < TILE ? count - i : TILE, across = width - j < TILE ? width - j : TILE;
            for (int64_t b = 0; b < across; b++)
                for (int64_t a = 0; a < down; a++)
                    lines[(j + b) * lines_step + i + a] = rows[(i + a) * step + j + b];
        }
}

/* Few columns ------------------------------------------------------------------------------------------------------ */

#if defined(__x86_64__) && defined(__GNUC__)

#include "team.h"

#define NAME(word) word##_of_8
#define LANES 8
#define ROWS 4
#define COLUMNS 6
#define NEAR 8
#define VECTORS 2
#include "narrow.h"
#undef NAME
#undef LANES
#undef ROWS
#undef COLUMNS
#undef NEAR
#define NAME(word) word##_of_4
#define LANES 4
#define ROWS 3
#define COLUMNS 4
#define NEAR 4
#include "narrow.h"
#undef NAME
#undef LANES
#undef ROWS
#undef COLUMNS
#undef NEAR
#undef VECTORS

#define WITH(cpu) __attribute__((target("arch=x86-64-" cpu)))
#define LINES const double *A, int64_t rows, int64_t width, int64_t a_step, const double *B, int64_t count, int64_t b_step
#define GIVEN A, rows, width, a_step, B, count, b_step, out, out_step

WITH("v4") static void inner_v4(LINES, double *out, int64_t out_step) { inner_of_8(GIVEN); }
WITH("v3") static void inner_v3(LINES, double *out, int64_t out_step) { inner_of_4(GIVEN); }
WITH("v4") static void combine_v4(LINES, double *out, int64_t out_step) { combine_of_8(GIVEN); }
WITH("v3") static void combine_v3(LINES, double *out, int64_t out_step) { combine_of_4(GIVEN); }

#define STORED const double *values, const int32_t *places, const int32_t *starts, int64_t rows
WITH("v4") static void sparse_v4(STORED, const double *B, int64_t count, double *out)
{
    sparse_of_8(values, places, starts, rows, B, count, out);
}
WITH("v3") static void sparse_v3(STORED, const double *B, int64_t count, double *out)
{
    sparse_of_4(values, places, starts, rows, B, count, out);
}

static int with_v4(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

/* Whether this processor has vectors for which the products below are made. */
int64_t has_narrow(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

static void inner_here(LINES, double *out, int64_t out_step)
{
    if (with_v4())
        inner_v4(GIVEN);
    else
        inner_v3(GIVEN);
}

static void combine_here(LINES, double *out, int64_t out_step)
{
    if (with_v4())
        combine_v4(GIVEN);
    else
        combine_v3(GIVEN);
}

static void sparse_here(STORED, const double *B, int64_t count, double *out)
{
    if (with_v4())
        sparse_v4(values, places, starts, rows, B, count, out);
    else
        sparse_v3(values, places, starts, rows, B, count, out);
}

typedef struct {
    const double *A, *B;
    int64_t width, a_step, count, b_step;
    double *out;
    int64_t out_step;
    const int64_t *lines, *places; /* where parts begin, and the last one ends */
    int64_t shares, share_step; /* parts of the lines, and the distance of their sums */
} product;

static void some_lines(const void *given, int64_t number)
{
    const product *of = given;
    int64_t first = of->lines[number], rows = of->lines[number + 1] - first;
    inner_here(of->A + first * of->a_step, rows, of->width, of->a_step, of->B, of->count, of->b_step,
               of->out + first * of->out_step, of->out_step);
}

static void some_places(const void *given, int64_t number)
{
    const product *of = given;
    int64_t share = number % of->shares, first = of->lines[share], rows = of->lines[share + 1] - first;
    int64_t from = of->places[number / of->shares], width = of->places[number / of->shares + 1] - from;
    combine_here(of->A + first * of->a_step + from, rows, width, of->a_step, of->B + first * of->b_step, of->count,
                 of->b_step, of->out + share * of->share_step + from, of->out_step);
}

/* Lines of A, (rows, width), times lines of B, (count, width): their inner products are added to `out`, (rows, count),
 * in parts of lines. */
void inner(LINES, double *out, int64_t out_step, const int64_t *lines, int64_t parts, int64_t threads)
{
    product of = {A, B, width, a_step, count, b_step, out, out_step, lines, NULL, 1, 0};
    (void)rows;
    in_parts(some_lines, &of, parts, threads);
}

/* Sums of lines of A, (rows, width), with weights B, (rows, count), are added to the lines of `out`, (count, width), in
 * parts of places; each share of the lines has sums of its own, `share_step` numbers from those of the one before. */
void combine(LINES, double *out, int64_t out_step, const int64_t *lines, int64_t shares, int64_t share_step,
             const int64_t *places, int64_t parts, int64_t threads)
{
    product of = {A, B, width, a_step, count, b_step, out, out_step, lines, places, shares, share_step};
    (void)rows;
    in_parts(some_places, &of, parts * shares, threads);
}

typedef struct {
    const double *values, *B;
    const int32_t *places, *starts;
    int64_t count;
    double *out;
    const int64_t *rows; /* where parts begin, and the last one ends */
} sparse_product;

static void some_rows(const void *given, int64_t number)
{
    const sparse_product *of = given;
    int64_t first = of->rows[number];
    sparse_here(of->values, of->places, of->starts + first, of->rows[number + 1] - first, of->B, of->count,
                of->out + first * of->count);
}

/* Rows of a sparse matrix, stored by rows, times B, whose rows have `count` numbers, a multiple of 8: into `out`, in
 * parts of rows. */
void sparse(const double *values, const int32_t *places, const int32_t *starts, const double *B, int64_t count,
            double *out, const int64_t *rows, int64_t parts, int64_t threads)
{
    sparse_product of = {values, B, places, starts, count, out, rows};
    in_parts(some_rows, &of, parts, threads);
}

#else

int64_t has_narrow(void) { return 0; }
void inner(void) {}
void combine(void) {}
void sparse(void) {}

#endif

/* Haar blocks ------------------------------------------------------------------------------------------------------ */

/* Reflectors of blocks, over their normals: the first entry of each, which is one, is written too. Block b has rows
 * starts[b] to starts[b + 1]; `tau`, `signs` and `cross` have a number for each row, `cross` the product of each
 * reflector with the next one. */
FOR_EACH_CPU
void reflectors(double *normals, const int64_t *starts, int64_t blocks, double *tau, double *signs, double *cross)
{
    double *v = normals;
    for (int64_t b = 0; b < blocks; b++)
        for (int64_t k = starts[b]; k < starts[b + 1]; k++) {
            int64_t entries = starts[b + 1] - k, row = k - starts[0];
            double square = 0.0, head = v[0], sign = head < 0 ? -1.0 : 1.0;
            for (int64_t j = 0; j < entries; j++)
                square += v[j] * v[j];
            double length = sqrt(square), pivot = head + sign * length, once = 1.0 / pivot;
            v[0] = 1.0;
            for (int64_t j = 1; j < entries; j++)
                v[j] *= once;
            tau[row] = pivot * sign / length;
            signs[row] = -sign;
            cross[row] = 0.0;
            if (k > starts[b]) {
                const double *before = v - entries;
                double product = 0.0;
                for (int64_t j = 0; j < entries; j++)
                    product += before[j] * v[j];
                cross[row - 1] = product;
            }
            v += entries;
        }
}

#define LANES 8
#define VECTORS 2 /* 16 lines are reflected at the same time: a number of each stands in one row of `near` */
#define TOGETHER (LANES * VECTORS)
#define WIDEST 512

typedef double Lanes __attribute__((vector_size(8 * LANES)));
typedef Lanes Row[VECTORS];

/* Rows of `near` under the reflectors H_k, which is v, and H_k+1, which is w: first v, then w, or the other way round.
 * Both products are made in one pass, and v^T w makes up for what the first of them does to the second. */
static inline __attribute__((always_inline)) void reflect_two(Row *near, const double *v, double v_tau, const double *w,
                                                               double w_tau, double both, int64_t rows, int v_first)
{
    Lanes a0 = near[0][0], a1 = near[0][1], b0 = {0}, b1 = {0};
    for (int64_t j = 0; j < rows; j++) {
        Lanes n0 = near[j + 1][0], n1 = near[j + 1][1];
        a0 += v[j + 1] * n0, a1 += v[j + 1] * n1;
        b0 += w[j] * n0, b1 += w[j] * n1;
    }
    if (v_first) {
        a0 *= v_tau, a1 *= v_tau;
        b0 = w_tau * (b0 - both * a0), b1 = w_tau * (b1 - both * a1);
    } else {
        b0 *= w_tau, b1 *= w_tau;
        a0 = v_tau * (a0 - both * b0), a1 = v_tau * (a1 - both * b1);
    }
    near[0][0] -= a0, near[0][1] -= a1;
    for (int64_t j = 0; j < rows; j++) {
        near[j + 1][0] -= v[j + 1] * a0 + w[j] * b0;
        near[j + 1][1] -= v[j + 1] * a1 + w[j] * b1;
    }
}

/* Q X over X, or Q^T X, for one block Q = H_0 ... H_{n-1} D; the columns of X are these lines, (count, n). */
static inline __attribute__((always_inline)) void reflect_block(const double *reflectors, const double *tau,
                                                                 const double *signs, const double *cross, int64_t n,
                                                                 double *lines, int64_t count, int64_t step,
                                                                 int transposed)
{
    _Alignas(64) Row near[WIDEST];
    double *numbers = (double *)near;
    int64_t pairs = n / 2;
    memset(near, 0, n * sizeof(Row));
    for (int64_t i = 0; i < count; i += TOGETHER) {
        int64_t some = count - i < TOGETHER ? count - i : TOGETHER;
        for (int64_t l = 0; l < some; l++)
            for (int64_t j = 0; j < n; j++)
                numbers[j * TOGETHER + l] = lines[(i + l) * step + j] * (transposed ? 1.0 : signs[j]);
        if (n % 2 && !transposed) /* the last reflector is of one number */
            for (int l = 0; l < VECTORS; l++)
                near[n - 1][l] -= tau[n - 1] * near[n - 1][l];
        for (int64_t p = 0; p < pairs; p++) {
            int64_t k = 2 * (transposed ? p : pairs - 1 - p);
            const double *v = reflectors + k * n - k * (k - 1) / 2, *w = v + (n - k);
            reflect_two(near + k, v, tau[k], w, tau[k + 1], cross[k], n - k - 1, transposed);
        }
        if (n % 2 && transposed)
            for (int l = 0; l < VECTORS; l++)
                near[n - 1][l] -= tau[n - 1] * near[n - 1][l];
        for (int64_t l = 0; l < some; l++)
            for (int64_t j = 0; j < n; j++)
                lines[(i + l) * step + j] = numbers[j * TOGETHER + l] * (transposed ? signs[j] : 1.0);
    }
}

/* The same for blocks along the lines, none wider than WIDEST; `reflectors` are as above. */
FOR_EACH_CPU
void reflect(const double *reflectors, const double *tau, const double *signs, const double *cross,
             const int64_t *starts, int64_t blocks, double *lines, int64_t count, int64_t step, int64_t transposed)
{
    const double *v = reflectors;
    for (int64_t b = 0; b < blocks; b++) {
        int64_t n = starts[b + 1] - starts[b], row = starts[b] - starts[0];
        if (transposed)
            reflect_block(v, tau + row, signs + row, cross + row, n, lines + row, count, step, 1);
        else
            reflect_block(v, tau + row, signs + row, cross + row, n, lines + row, count, step, 0);
        v += n * (n + 1) / 2;
    }
}
