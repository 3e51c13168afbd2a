/** Which part of a long test runs: all of it in `make soak`, and a sample in `make test`. */
export const isSoak = process.env.ESPALIER_SOAK !== undefined

/** The points to try: all, or every n-th, starting with the one at `first`. */
export const spread = <T>(points: readonly T[], every: number, first = 0): T[] =>
  isSoak ? [...points] : points.filter((_, index) => index % every === first % every)
