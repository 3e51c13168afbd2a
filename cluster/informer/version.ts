/**
 * Orders resourceVersions. They are decimal numbers of any length (documented by Kubernetes since 1.35, and always
 * true). They are compared without losing digits above 2^53.
 */

/** Negative if `a` is older than `b`, zero if they are equal. A missing version is older than every other version. */
export function compareVersions(a: string | undefined, b: string | undefined): number {
  const left = a ?? ''
  const right = b ?? ''
  if (left.length !== right.length) return left.length - right.length
  return left < right ? -1 : left > right ? 1 : 0
}
