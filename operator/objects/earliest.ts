/** The earliest of these times; undefined if none is known. */
export const earliest = (...times: (number | undefined)[]): number | undefined => {
  const known = times.filter(time => time !== undefined)
  return known.length === 0 ? undefined : Math.min(...known)
}
