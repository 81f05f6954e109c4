// Sums and counts over all draws, computed for eight numbers at a time.
typedef double V __attribute__((vector_size(64)));
typedef long L __attribute__((vector_size(64)));
#if __AVX512F__
#include <immintrin.h>
#endif

static inline V numbers(const double* p, long stride, long count) {
  if (count == 8)
    return V{p[0], p[stride], p[2 * stride], p[3 * stride], p[4 * stride], p[5 * stride], p[6 * stride], p[7 * stride]};
  V x;
  for (long l = 0; l < 8; ++l) x[l] = p[l < count ? l * stride : 0];
  return x;
}

static inline V eight(const double* p) {
  V x;
  __builtin_memcpy(&x, p, sizeof x);
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

// Returns the bin, among bins of equal width, that contains a number. A greater number is never in an earlier bin, and
// NaN is in the last one.
static inline L bin(V z, double low, double scale, long bins) {
  V t = (z - low) * scale;
  t = t < bins - 1.0 ? t : V{} + (bins - 1.0);
  return __builtin_convertvector(t > 0.0 ? t : V{}, L);
}

// Fills two tables for the increasing cuts (points + 1), the last of which is infinite. first (bins): the index of the
// first cut in this bin or a later one. inside (bins): that cut. Returns whether any bin contains two cuts.
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

// Numbers of draws, chains and directions that are processed together. A tile of draws fits into one cache, and NEAR
// chains fit into the next.
enum { TILE = 64, NEAR = 64, TOGETHER = 4 };

// The cuts of one direction, with `first` and `inside` from `tabulate`.
struct Cuts {
  const long* first;
  const double *inside, *all;
};

// Adds the weight of each of `size` draws of `live` chains to counts (chains, apart), in the draw's cell: that of the
// first cut that is not less than z. `in` is the bin of z.
static inline __attribute__((always_inline)) void count(
  const V* z, const L* in, const V* weights, long size, long live, const Cuts& cuts, bool crowded, long apart,
  double* counts
) {
  for (long b = 0; b < size; ++b)
#pragma GCC unroll 8
    for (long l = 0; l < live; ++l) {
      const double number = ((const double*)(z + b))[l];
      const long bin = ((const long*)(in + b))[l];
      long cell = cuts.first[bin] + (number > cuts.inside[bin]);
      if (crowded)
        while (!(number <= cuts.all[cell])) ++cell;
      counts[l * apart + cell] += ((const double*)(weights + b))[l];
    }
}

// Adds w d d', summed over the draws d (TILE, padded), to the lower triangle of both (wide, padded). Other values that
// are written to the last columns are not read.
static void multiply(const V* d, const V* w, long size, long wide, long padded, V* both) {
  for (long i = 0; i < wide; ++i) {
    V left[TILE];
    for (long b = 0; b < size; ++b) left[b] = w[b] * d[b * padded + i];
    for (long j = 0; j <= i; j += TOGETHER) {
      V* p = both + i * padded + j;
      V p0 = p[0], p1 = p[1], p2 = p[2], p3 = p[3];
      for (long b = 0; b < size; ++b) {
        const V *here = d + b * padded + j, factor = left[b];
        p0 += factor * here[0], p1 += factor * here[1], p2 += factor * here[2], p3 += factor * here[3];
      }
      p[0] = p0, p[1] = p1, p[2] = p2, p[3] = p3;
    }
  }
}

// Computes z (TOGETHER, TILE), the draws d (TILE, padded) along the next directions `a` (TOGETHER, dim).
static void project(const V* d, long size, long dim, long padded, const double* a, V* z) {
  const double *a0 = a, *a1 = a0 + dim, *a2 = a1 + dim, *a3 = a2 + dim;
  for (long b = 0; b < size; b += 2) {
    const V *here = d + b * padded + 1, *next = here + padded;
    V p0 = {}, p1 = {}, p2 = {}, p3 = {}, q0 = {}, q1 = {}, q2 = {}, q3 = {};
    for (long i = 0; i < dim; ++i) {
      const V x = here[i], y = next[i];
      p0 += a0[i] * x, p1 += a1[i] * x, p2 += a2[i] * x, p3 += a3[i] * x;
      q0 += a0[i] * y, q1 += a1[i] * y, q2 += a2[i] * y, q3 += a3[i] * y;
    }
    z[b] = p0, z[b + TILE] = p1, z[b + 2 * TILE] = p2, z[b + 3 * TILE] = p3;
    z[b + 1] = q0, z[b + 1 + TILE] = q1, z[b + 1 + 2 * TILE] = q2, z[b + 1 + 3 * TILE] = q3;
  }
}

// Adds up sums over draws x (draws, chains, dim) with weights (draws, chains). Successive weights of a chain are
// `by_draw` apart, those of a draw `by_chain`. With d = x - mean and z = along (directions, dim) d, the sums are
//   weight, weight2  (chains)                          of w and w^2
//   sum_z, sum_z2    (chains, directions)              of w z and w (z^2 - 1)
//   below            (chains, directions, points + 1)  of w, by the place of z among the cuts (directions, points + 1)
//   pairs            (1 + dim, 1 + dim)                of w (1, d) (1, d)', unless `pairs` is null
// The last cut of each direction is infinite. `along` has rows of zeros up to a multiple of TOGETHER; if it is null, x
// is z (directions, draws, chains), and `pairs` is null. `first` and `inside` (directions, bins) are from `tabulate`.
extern "C" long add(
  const double* x, const double* weights, long by_draw, long by_chain, long draws, long chains, long dim,
  long directions, long points, long bins, long crowded, const double* along, const double* cuts, const double* low,
  const double* scale, const long* first, const double* inside, const double* mean, double* weight, double* weight2,
  double* sum_z, double* sum_z2, double* below, double* pairs
) {
  const long cells = points + 1, wide = 1 + dim, padded = (wide + TOGETHER - 1) / TOGETHER * TOGETHER;
  const long apart = directions * cells;
  V* const both = new V[(wide + TILE) * padded]();
  V* const d = both + wide * padded;
  for (long near = 0; near < chains; near += NEAR)
    for (long begin = 0; begin < draws; begin += TILE)
      for (long g = near; g < chains && g < near + NEAR; g += 8) {
        const long live = chains - g < 8 ? chains - g : 8, size = draws - begin < TILE ? draws - begin : TILE;
        V total = {}, total2 = {}, w[TILE], all[TOGETHER * TILE];
        for (long b = 0; b < size; ++b) {
          w[b] = numbers(weights + (begin + b) * by_draw + g * by_chain, by_chain, live);
          for (long l = live; l < 8; ++l) w[b][l] = 0.0;
          total += w[b];
          total2 += w[b] * w[b];
          if (!along) continue;
          const double* from = x + ((begin + b) * chains + g) * dim;
          V* here = d + b * padded;
          here[0] = V{} + 1.0;
          for (long i = 0; i < dim; ++i) here[1 + i] = numbers(from + i, dim, live) - mean[i];
        }
        for (long l = 0; l < live; ++l) weight[g + l] += total[l], weight2[g + l] += total2[l];
        if (pairs) multiply(d, w, size, wide, padded, both);
        for (long k = 0; k < directions; ++k) {
          V *const z = all + k % TOGETHER * TILE;
          if (!along)
            for (long b = 0; b < size; ++b) {
              const double* from = x + (k * draws + begin + b) * chains + g;
              z[b] = live == 8 ? eight(from) : numbers(from, 1, live);
            }
          else if (k % TOGETHER == 0)
            project(d, size, dim, padded, along + k * dim, all);
          V sum = {}, sum2 = {};
          for (long b = 0; b < size; ++b) {
            const V one = w[b] * z[b];
            sum += one;
            sum2 += one * z[b] - w[b];
          }
          double* const counts = below + g * apart + k * cells;
          for (long l = 0; l < live; ++l) {
            sum_z[(g + l) * directions + k] += sum[l];
            sum_z2[(g + l) * directions + k] += sum2[l];
            if (!points) counts[l * apart] += total[l];
          }
          if (!points) continue;
          L in[TILE];
          for (long b = 0; b < size; ++b) {
            z[b] = z[b] == z[b] ? z[b] : V{} + __DBL_MAX__;
            in[b] = bin(z[b], low[k], scale[k], bins);
          }
          const Cuts of{first + k * bins, inside + k * bins, cuts + k * cells};
          if (live == 8 && !crowded)
            count(z, in, w, size, 8, of, false, apart, counts);
          else
            count(z, in, w, size, live, of, crowded, apart, counts);
        }
      }
  for (long i = 0; pairs && i < wide; ++i)
    for (long j = 0; j <= i; ++j)
      for (long l = 0; l < 8; ++l) {
        pairs[i * wide + j] += both[i * padded + j][l];
        if (i != j) pairs[j * wide + i] += both[i * padded + j][l];
      }
  delete[] both;
  return 0;
}

// Finds for each of the draws x (n, dim), made at steps (n / chains), the mode with the nearest of the centres (modes,
// dim): the first with the largest <x, mu> - |mu|^2 / 2. The weights are `by_draw` and `by_chain` numbers apart, as in
// `add`. `start` is -|mu|^2 / 2. Adds up
//   mass, squares  (modes)  sums of w and w |x - mu|^2
//   counts         (modes)  number of draws within the radius
//   sums           (2)      sum of w within a radius, and sum of w
// and sets visits (modes) to the step of the first draw within the radius, where that is still negative. A draw that is
// not finite only counts in the last sum; a draw whose weight is not finite counts nowhere.
extern "C" long modes(
  const double* x, const double* weights, long by_draw, long by_chain, const long* steps, long n, long chains, long dim,
  const double* centres, const double* start, long modes, double radius2, double* mass, double* squares, long* counts,
  long* visits, double* sums
) {
  enum { BESIDE = 4, MOST = 8 * BESIDE };
  V* const here = new V[dim * BESIDE];
  V total = {}, within = {};
  long draw = 0, chain = 0;  // those of the next weight
  for (long first = 0; first < n; first += MOST) {
    V w[BESIDE] = {}, best[BESIDE];
    L which[BESIDE] = {};
    const long found = n - first < MOST ? n - first : MOST;
    long made[MOST];
    for (long l = 0; l < found; ++l) {
      ((double*)w)[l] = weights[draw * by_draw + chain * by_chain];
      made[l] = draw;
      if (++chain == chains) chain = 0, ++draw;
    }
    for (long v = 0; v < BESIDE; ++v) {
      const long i = first + 8 * v, live = n - i < 8 ? n - i : 8;
      for (long d = 0; d < dim; ++d) here[d * BESIDE + v] = live > 0 ? numbers(x + i * dim + d, dim, live) : V{};
    }
    for (long j = 0; j < modes; ++j) {
      V close[BESIDE];
      for (V& c : close) c = V{} + start[j];
      for (long d = 0; d < dim; ++d)
#pragma GCC unroll 4
        for (long v = 0; v < BESIDE; ++v) close[v] += here[d * BESIDE + v] * centres[j * dim + d];
#pragma GCC unroll 4
      for (long v = 0; v < BESIDE; ++v) {
        const L better = j == 0 ? L{} - 1 : (L)(close[v] > best[v]);
        best[v] = better ? close[v] : best[v];
        which[v] = better ? L{} + j : which[v];
      }
    }
    for (long v = 0; v < BESIDE; ++v) {
      V size = {}, distance2 = {};
      for (long d = 0; d < dim; ++d) {
        const V x = here[d * BESIDE + v], gap = x - take(centres + d, which[v] * dim);
        size += x * 0.0;
        distance2 += gap * gap;
      }
      const L finite = w[v] * 0.0 == 0.0, seen = finite & (size == 0.0), inside = seen & (distance2 <= radius2);
      V heavy = finite ? w[v] : V{};
      total += heavy;
      within += inside ? heavy : V{};
      heavy = seen ? heavy : V{};
      distance2 = seen ? heavy * distance2 : V{};
      const long live = found - 8 * v < 8 ? found - 8 * v : 8;
      for (long l = 0; l < live; ++l) {
        const long mode = which[v][l];
        mass[mode] += heavy[l];
        squares[mode] += distance2[l];
        counts[mode] -= inside[l];
        if (visits[mode] < 0 && inside[l]) visits[mode] = steps[made[8 * v + l]];
      }
    }
  }
  for (long l = 0; l < 8; ++l) sums[0] += within[l], sums[1] += total[l];
  delete[] here;
  return 0;
}
