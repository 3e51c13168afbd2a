/** The path of batches, as `batch-path` configures it. Pure. */

/** One or more segments that need no encoding; not the root, and not under `/rpc`, where functions are. */
export const isBatchPath = (path: string): boolean =>
  /^(\/[\w.~-]{1,63}){1,4}$/.test(path) && !/^\/rpc(\/|$)/.test(path)
