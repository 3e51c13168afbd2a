/** The path of batches, as `batch-path` configures it. Pure. */

/**
 * One or more segments that need no encoding. The root is excluded, and so are paths under `/rpc`, which belong to
 * functions.
 */
export const isBatchPath = (path: string): boolean =>
  /^(\/[\w.~-]{1,63}){1,4}$/.test(path) && !/^\/rpc(\/|$)/.test(path)
