// What is counted for every draw, eight numbers at a time. The comparisons and sums are those of NumPy, in its order.
typedef double V __attribute__((vector_size(64)));
typedef long L __attribute__((vector_size(64)));

static inline V read(const double* p, long stride, long left) {
  V x;
  for (long l = 0; l < 8; ++l) x[l] = p[l < left ? l * stride : 0];
  return x;
}

// counts (chains, m + 1) += weight of each z (draws, chains) in its place among the cuts (m); NaN is in the last one.
extern "C" void below(
  const double* z, const double* weights, long draws, long chains, const double* cuts, long m, double* counts
) {
  const long n = draws * chains;
  for (long i = 0, chain = 0; i < n; i += 8) {
    const long left = n - i;
    const V here = read(z + i, 1, left);
    L place = {};
    for (long j = 0; j < m; ++j) place += (L)(here <= cuts[j]) + 1;
    for (long l = 0; l < 8 && l < left; ++l) {
      counts[chain * (m + 1) + place[l]] += weights[i + l];
      chain = chain + 1 == chains ? 0 : chain + 1;
    }
  }
}

// The centre (m, dim) nearest to each x (n, dim): the first with the largest <x, mu> - |mu|^2 / 2, or the first NaN.
extern "C" void nearest(const double* x, long n, long dim, const double* centres, const double* start, long m, long* out) {
  for (long i = 0; i < n; i += 8) {
    V best;
    L which = {};
    for (long j = 0; j < m; ++j) {
      V close = V{} + start[j];
      for (long d = 0; d < dim; ++d) close = close + read(x + i * dim + d, dim, n - i) * centres[j * dim + d];
      const L better = j == 0 ? L{} - 1 : (L)~(close <= best) & (L)(best == best);
      best = better ? close : best;
      which = better ? L{} + j : which;
    }
    for (long l = 0; l < 8 && l < n - i; ++l) out[i + l] = which[l];
  }
}
