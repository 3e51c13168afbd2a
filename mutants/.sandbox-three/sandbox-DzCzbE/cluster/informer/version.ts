/**
 * Order of resourceVersions. They are decimal numbers of any length (Kubernetes states so from 1.35 on, and has always
 * written them so), compared without losing digits beyond 2^53.
 */
// @ts-nocheck


/** Below zero where `a` is older than `b`, zero where they are the same. A missing version is older than any. */
export function compareVersions(a: string | undefined, b: string | undefined): number {
  const left = a ?? ''
  const right = b ?? ''
  if (left.length !== right.length) return left.length - right.length
  return left < right ? -1 : left > right ? 1 : 0
}
