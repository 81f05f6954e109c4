// What is summed and counted for every draw, eight numbers at a time.
typedef double V __attribute__((vector_size(64)));
typedef long L __attribute__((vector_size(64)));
#if __AVX512F__
#include <immintrin.h>
#endif

static inline V numbers(const double* p, long stride, long count) {
  V x;
#if __AVX512F__
  if (count == 8) {
    const L places = L{0, 1, 2, 3, 4, 5, 6, 7} * stride;
    return (V)_mm512_i64gather_pd((__m512i)places, p, 8);
  }
#endif
  for (long l = 0; l < 8; ++l) x[l] = p[l < count ? l * stride : 0];
  return x;
}

static inline V take(const double* p, L i) {
#if __AVX512F__
  return (V)_mm512_i64gather_pd((__m512i)i, p, 8);
#endif
  V x;
  for (long l = 0; l < 8; ++l) x[l] = p[i[l]];
  return x;
}

static inline L take(const long* p, L i) { return (L)take((const double*)p, i); }

// Which of equal bins a number is in. A greater number is never in an earlier one, and NaN is in the last.
static inline L bin(V z, double low, double scale, long bins) {
  V t = (z - low) * scale;
  t = t < bins - 1.0 ? t : V{} + (bins - 1.0);
  return __builtin_convertvector(t > 0.0 ? t : V{}, L);
}

// first (bins): the place of the first of the increasing cuts (points + 1, the last one infinite) that is in this bin or
// in a later one. inside (bins): that cut. Returns whether there is a bin with two cuts.
extern "C" long tabulate(
  const double* cuts, long points, double low, double scale, long bins, long* first, double* inside
) {
  long crowded = 0, before = -1;
  for (long i = 0; i < bins; ++i) first[i] = 0;
  for (long j = 0; j < points; ++j) {
    const long place = bin(V{} + cuts[j], low, scale, bins)[0];
    crowded |= place == before;
    before = place;
    for (long i = place + 1; i < bins; ++i) ++first[i];
  }
  for (long i = 0; i < bins; ++i) inside[i] = cuts[first[i]];
  return crowded;
}

enum { TILE = 32, TOGETHER = 4 };

// counts (chains, apart) += the weight, in the cell of each of `size` draws of `live` chains.
static inline __attribute__((always_inline)) void count(
  const L* cell, const V* weights, long size, long live, long apart, double* counts
) {
  for (long b = 0; b < size; ++b)
    for (long l = 0; l < live; ++l) counts[l * apart + ((const long*)(cell + b))[l]] += ((const double*)(weights + b))[l];
}

// Sums over draws x (draws, chains, dim) with weights (draws, chains), d = x - mean, z = along (directions, dim) d: of w
// and w^2 (chains), of w z and w (z^2 - 1) (chains, directions); below (chains, directions, points + 1), of w by the place
// of z among the cuts (directions, points + 1), the last of which are infinite; and of w (1, d) (1, d)' (1 + dim, 1 + dim),
// if wanted. `along` has rows of zeros up to a multiple of TOGETHER; first and inside (directions, bins) are from
// `tabulate`.
extern "C" long add(
  const double* x, const double* weights, long draws, long chains, long dim, long directions, long points, long bins,
  long crowded, const double* along, const double* cuts, const double* low, const double* scale, const long* first,
  const double* inside, const double* mean, double* weight, double* weight2, double* sum_z, double* sum_z2,
  double* below, double* pairs
) {
  const long cells = points + 1, wide = 1 + dim;
  const long products = pairs ? wide * (wide + 1) / 2 : 0;
  V* const z1 = new V[2 * directions + products + TILE * wide];  // directions
  V* const z2 = z1 + directions;
  V* const both = z2 + directions;  // the lower triangle
  V* const d = both + products;     // TILE, wide
  const long apart = directions * cells;
  for (long g = 0; g < chains; g += 8) {
    const long live = chains - g < 8 ? chains - g : 8;
    V total = {}, total2 = {};
    for (V* p = z1; p < d; ++p) *p = V{};
    for (long begin = 0; begin < draws; begin += TILE) {
      const long size = draws - begin < TILE ? draws - begin : TILE;
      V w[TILE], all[TOGETHER][TILE];
      for (long b = 0; b < size; ++b) {
        const long row = (begin + b) * chains + g;
        V* here = d + b * wide;
        w[b] = numbers(weights + row, 1, live);
        total += w[b];
        total2 += w[b] * w[b];
        here[0] = V{} + 1.0;
        for (long i = 0; i < dim; ++i) here[1 + i] = numbers(x + row * dim + i, dim, live) - mean[i];
        V* p = both;
        for (long i = 0; pairs && i < wide; ++i) {
          const V left = w[b] * here[i];
          for (long j = 0; j <= i; ++j) *p++ += left * here[j];
        }
      }
      for (long k = 0; k < directions; ++k) {
        if (k % TOGETHER == 0)
          for (long b = 0; b < size; ++b) {
            const V* here = d + b * wide + 1;
            const double *a0 = along + k * dim, *a1 = a0 + dim, *a2 = a1 + dim, *a3 = a2 + dim;
            V one0 = {}, one1 = {}, one2 = {}, one3 = {};
            for (long i = 0; i < dim; ++i) {
              const V x = here[i];
              one0 += a0[i] * x, one1 += a1[i] * x, one2 += a2[i] * x, one3 += a3[i] * x;
            }
            all[0][b] = one0, all[1][b] = one1, all[2][b] = one2, all[3][b] = one3;
          }
        V sum = {}, sum2 = {};
        L cell[TILE];
        for (long b = 0; b < size; ++b) {
          V z = all[k % TOGETHER][b];
          const V one = w[b] * z;
          sum += one;
          sum2 += one * z - w[b];
          z = z == z ? z : V{} + __DBL_MAX__;
          const L in = bin(z, low[k], scale[k], bins);
          cell[b] = take(first + k * bins, in) - (L)~(z <= take(inside + k * bins, in));
          if (crowded)
            for (long l = 0; l < 8; ++l)
              while (!(z[l] <= cuts[k * cells + cell[b][l]])) ++cell[b][l];
        }
        z1[k] += sum;
        z2[k] += sum2;
        double* counts = below + g * apart + k * cells;
        if (live == 8)
          count(cell, w, size, 8, apart, counts);
        else
          count(cell, w, size, live, apart, counts);
      }
    }
    for (long l = 0; l < live; ++l) {
      weight[g + l] += total[l];
      weight2[g + l] += total2[l];
      for (long k = 0; k < directions; ++k) {
        sum_z[(g + l) * directions + k] += z1[k][l];
        sum_z2[(g + l) * directions + k] += z2[k][l];
      }
    }
    const V* p = both;
    for (long i = 0; pairs && i < wide; ++i)
      for (long j = 0; j <= i; ++j, ++p)
        for (long l = 0; l < live; ++l) {
          pairs[i * wide + j] += (*p)[l];
          if (i != j) pairs[j * wide + i] += (*p)[l];
        }
  }
  delete[] z1;
  return 0;
}

// Of draws x (n, dim) with weights (n), made at steps (n / chains), the mode with the nearest of the centres (modes,
// dim), the first of those with the largest <x, mu> - |mu|^2 / 2: mass and squares (modes), the sums of w and w |x - mu|^2;
// counts and visits (modes), the number of draws within the radius and the step of the first; sums (2), of w within a
// radius and of w. A draw or weight that is not finite only counts in the last.
extern "C" long modes(
  const double* x, const double* weights, const long* steps, long n, long chains, long dim, const double* centres,
  const double* start, long modes, double radius2, double* mass, double* squares, long* counts, long* visits, double* sums
) {
  V* const here = new V[dim];
  V total = {}, within = {};
  for (long i = 0; i < n; i += 8) {
    const long live = n - i < 8 ? n - i : 8;
    for (long d = 0; d < dim; ++d) here[d] = numbers(x + i * dim + d, dim, live);
    V best = {};
    L which = {};
    for (long j = 0; j < modes; ++j) {
      V close = V{} + start[j];
      for (long d = 0; d < dim; ++d) close += here[d] * centres[j * dim + d];
      const L better = j == 0 ? L{} - 1 : (L)(close > best);
      best = better ? close : best;
      which = better ? L{} + j : which;
    }
    V w = numbers(weights + i, 1, live), size = {}, distance2 = {};
    for (long d = 0; d < dim; ++d) {
      const V gap = here[d] - take(centres + d, which * dim);
      size += here[d] * 0.0;
      distance2 += gap * gap;
    }
    for (long l = live; l < 8; ++l) w[l] = 0;
    const L finite = w * 0.0 == 0.0, seen = finite & (size == 0.0), inside = seen & (distance2 <= radius2);
    w = finite ? w : V{};
    total += w;
    within += inside ? w : V{};
    w = seen ? w : V{};
    distance2 = seen ? w * distance2 : V{};
    for (long l = 0; l < live; ++l) {
      const long mode = which[l];
      mass[mode] += w[l];
      squares[mode] += distance2[l];
      counts[mode] -= inside[l];
      if (visits[mode] < 0 && inside[l]) visits[mode] = steps[(i + l) / chains];
    }
  }
  for (long l = 0; l < 8; ++l) sums[0] += within[l], sums[1] += total[l];
  delete[] here;
  return 0;
}
