/** Where batches are taken, as `batch-path` says it. Pure. */

/** One or more segments that need no encoding; not the root, and not under `/rpc`, which is of functions. */
export const isBatchPath = (path: string): boolean =>
  /^(\/[\w.~-]{1,63}){1,4}$/.test(path) && !/^\/rpc(\/|$)/.test(path)
