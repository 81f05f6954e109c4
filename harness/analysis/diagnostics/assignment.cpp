// Approximate dual prices of the assignment problem, by an auction with falling increments.
// Source: D. P. Bertsekas, "The auction algorithm: A distributed relaxation method for the assignment problem",
// Annals of Operations Research 14, 1988.
#include <algorithm>
#include <limits>
#include <vector>

static const double infinite = std::numeric_limits<double>::infinity();

// Costs less the least of their row, then less the least of their column, whose negative is the column's first price.
// Returns the median over rows of what remains on average.
static double reduce(long n, const double* cost, double* price) {
  std::vector<double> least(n, infinite), mean(n, 0);
  for (long j = 0; j < n; j++) price[j] = -infinite;
  for (long i = 0; i < n; i++) {
    for (long j = 0; j < n; j++) least[i] = std::min(least[i], cost[i * n + j]);
    for (long j = 0; j < n; j++) price[j] = std::max(price[j], least[i] - cost[i * n + j]);
  }
  for (long i = 0; i < n; i++)
    for (long j = 0; j < n; j++) mean[i] += (cost[i * n + j] - least[i] + price[j]) / n;
  std::nth_element(mean.begin(), mean.begin() + n / 2, mean.end());
  return mean[n / 2];
}

// Increments as shares of the typical cost: the first, the last over n, and from one to the next.
static const double FIRST = 0.5, LAST = 0.05, FACTOR = 0.2;

// cost (n, n), row by row, each >= 0 and finite; price (n) receives the price of each column.
// The prices may be any: an auction that takes too many bids is broken off.
extern "C" long prices(long n, const double* cost, double* price) {
  const double typical = reduce(n, cost, price);
  std::vector<long> owner(n), unassigned;
  long bids = 0, most = 1000 * n;
  for (double increment = FIRST * typical; increment * n > LAST * typical; increment *= FACTOR) {
    unassigned.clear();
    for (long i = 0; i < n; i++) {
      owner[i] = -1;
      unassigned.push_back(n - 1 - i);
    }
    while (!unassigned.empty() && bids++ < most) {
      const long i = unassigned.back();
      unassigned.pop_back();
      double least = infinite, second = infinite;
      long column = 0;
      for (long j = 0; j < n; j++) {
        const double value = cost[i * n + j] + price[j];
        if (value < least) {
          second = least;
          least = value;
          column = j;
        } else if (value < second) {
          second = value;
        }
      }
      if (n > 1) price[column] += second - least;
      price[column] += increment;
      if (owner[column] >= 0) unassigned.push_back(owner[column]);
      owner[column] = i;
    }
  }
  return bids;
}
