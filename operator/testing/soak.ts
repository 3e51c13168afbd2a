/** How much of what is long is tried: all of it by `make soak`, a spread of it by `make test`. */
export const isSoak = process.env.ESPALIER_SOAK !== undefined

/** Of points to try: all, or every so many, beginning with the one at `first`. */
export const spread = <T>(points: readonly T[], every: number, first = 0): T[] =>
  isSoak ? [...points] : points.filter((_, index) => index % every === first % every)
