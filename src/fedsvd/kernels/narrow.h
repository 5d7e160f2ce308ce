/* Products of long lines with few others, once for each kind of vector register: `passes.c` includes this with NAME,
 * LANES (numbers of a vector), ROWS and COLUMNS (lines whose products are added up in registers), NEAR and VECTORS
 * (lines and vectors of each that are held in registers). What is read is read where it lies and once: BLAS, which
 * copies a matrix into an order of its own first, takes two to three times as long for ten columns.
 */

typedef double NAME(vector) __attribute__((vector_size(8 * LANES), aligned(8)));

static inline __attribute__((always_inline)) void NAME(tile)(const double *A, int64_t a_step, const double *B,
                                                              int64_t b_step, int64_t width, double *out,
                                                              int64_t out_step, int rows, int columns)
{
    NAME(vector) sums[ROWS][COLUMNS], a[ROWS];
    int64_t k = 0;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            sums[i][j] = (NAME(vector)){0};
    for (; k + LANES <= width; k += LANES) {
        for (int i = 0; i < rows; i++)
            a[i] = *(const NAME(vector) *)(A + i * a_step + k);
        for (int j = 0; j < columns; j++) {
            NAME(vector) b = *(const NAME(vector) *)(B + j * b_step + k);
            for (int i = 0; i < rows; i++)
                sums[i][j] += a[i] * b;
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++) {
            double sum = 0.0;
            for (int l = 0; l < LANES; l++)
                sum += sums[i][j][l];
            for (int64_t rest = k; rest < width; rest++)
                sum += A[i * a_step + rest] * B[j * b_step + rest];
            out[i * out_step + j] += sum;
        }
}

#define CASE(rows, columns)                                                                                            \
    case columns:                                                                                                      \
        NAME(tile)(a, a_step, b, b_step, some, to, out_step, rows, columns < COLUMNS ? columns : COLUMNS);            \
        break;
#define CASES(rows) CASE(rows, 1) CASE(rows, 2) CASE(rows, 3) CASE(rows, 4) CASE(rows, 5) CASE(rows, 6)

static inline __attribute__((always_inline)) void NAME(inner)(const double *A, int64_t rows, int64_t width,
                                                               int64_t a_step, const double *B, int64_t count,
                                                               int64_t b_step, double *out, int64_t out_step)
{
    int64_t panel = 24576 / count / LANES * LANES; /* of B: it stays in the second-level cache */
    panel = panel < 1024 ? 1024 : panel > 12288 ? 12288 : panel;
    for (int64_t first = 0; first < width; first += panel) {
        int64_t some = width - first < panel ? width - first : panel, together;
        for (int64_t i = 0; i < rows; i += together) {
            together = rows - i < ROWS ? 1 : ROWS;
            for (int64_t j = 0; j < count; j += COLUMNS) {
                const double *a = A + i * a_step + first, *b = B + j * b_step + first;
                double *to = out + i * out_step + j;
                int64_t columns = count - j < COLUMNS ? count - j : COLUMNS;
                if (together == ROWS)
                    switch (columns) { CASES(ROWS) }
                else
                    switch (columns) { CASES(1) }
            }
        }
    }
}

#undef CASE
#undef CASES

static inline __attribute__((always_inline)) void NAME(onto)(const double *A, int64_t a_step, int64_t width,
                                                              const double *W, int64_t count, int64_t w_step,
                                                              double *out, int64_t out_step, int rows)
{
    int64_t k = 0;
    for (; k + LANES * VECTORS <= width; k += LANES * VECTORS) {
        NAME(vector) near[NEAR][VECTORS], sums[VECTORS];
        for (int i = 0; i < rows; i++)
            for (int v = 0; v < VECTORS; v++)
                near[i][v] = *(const NAME(vector) *)(A + i * a_step + k + v * LANES);
        for (int64_t j = 0; j < count; j++) {
            double *to = out + j * out_step + k;
            for (int v = 0; v < VECTORS; v++)
                sums[v] = *(const NAME(vector) *)(to + v * LANES);
            for (int i = 0; i < rows; i++)
                for (int v = 0; v < VECTORS; v++)
                    sums[v] += near[i][v] * W[i * w_step + j];
            for (int v = 0; v < VECTORS; v++)
                *(NAME(vector) *)(to + v * LANES) = sums[v];
        }
    }
    for (int64_t j = 0; j < count; j++)
        for (int64_t rest = k; rest < width; rest++)
            for (int i = 0; i < rows; i++)
                out[j * out_step + rest] += A[i * a_step + rest] * W[i * w_step + j];
}

static inline __attribute__((always_inline)) void NAME(combine)(const double *A, int64_t rows, int64_t width,
                                                                 int64_t a_step, const double *W, int64_t count,
                                                                 int64_t w_step, double *out, int64_t out_step)
{
    int64_t panel = 12288 / count / (LANES * VECTORS) * (LANES * VECTORS); /* of `out`: likewise */
    panel = panel < 512 ? 512 : panel > 4096 ? 4096 : panel;
    for (int64_t first = 0; first < width; first += panel) {
        int64_t some = width - first < panel ? width - first : panel, i = 0;
        for (; i + NEAR <= rows; i += NEAR)
            NAME(onto)(A + i * a_step + first, a_step, some, W + i * w_step, count, w_step, out + first, out_step, NEAR);
        for (; i < rows; i++)
            NAME(onto)(A + i * a_step + first, a_step, some, W + i * w_step, count, w_step, out + first, out_step, 1);
    }
}

/* Rows of a sparse matrix times `eights` * 8 columns of B, each number bit for bit as SciPy has it: products are rounded
 * before they are added, one after the other, and none is fused with its sum, which the empty assembly says.
 */
static inline __attribute__((always_inline)) void NAME(stored)(const double *values, const int32_t *places,
                                                                const int32_t *starts, int64_t rows, const double *B,
                                                                int64_t b_step, double *out, int64_t out_step,
                                                                int eights)
{
    int vectors = eights * 8 / LANES;
    for (int64_t i = 0; i < rows; i++) {
        NAME(vector) sums[16 / LANES];
        for (int v = 0; v < vectors; v++)
            sums[v] = (NAME(vector)){0};
        for (int64_t k = starts[i]; k < starts[i + 1]; k++) {
            const double *b = B + places[k] * b_step;
            for (int v = 0; v < vectors; v++) {
                NAME(vector) product = values[k] * *(const NAME(vector) *)(b + v * LANES);
                __asm__("" : "+x"(product));
                sums[v] += product;
            }
        }
        for (int v = 0; v < vectors; v++)
            *(NAME(vector) *)(out + i * out_step + v * LANES) = sums[v];
    }
}

static inline __attribute__((always_inline)) void NAME(sparse)(const double *values, const int32_t *places,
                                                                const int32_t *starts, int64_t rows, const double *B,
                                                                int64_t count, double *out)
{
    int64_t j = 0;
    for (; j + 16 <= count; j += 16)
        NAME(stored)(values, places, starts, rows, B + j, count, out + j, count, 2);
    if (j < count)
        NAME(stored)(values, places, starts, rows, B + j, count, out + j, count, 1);
}
