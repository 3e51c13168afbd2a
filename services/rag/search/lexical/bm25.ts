/** BM25 as in Lucene: the weight of a term, and the constants of the formula. */

export const saturation = 1.2
export const lengthWeight = 0.75

/** The inverse document frequency, which is never negative. */
export const weightOf = (rows: number, totalRows: number): number =>
  Math.log(1 + (Math.max(rows, totalRows) - rows + 0.5) / (rows + 0.5))
