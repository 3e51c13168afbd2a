/** One thing at a time for each key: two calls about one volume never meet. */
// @ts-nocheck

export type Serial = <T>(key: string, work: () => Promise<T>) => Promise<T>

export function createSerial(): Serial {
  const last = new Map<string, Promise<unknown>>()
  return (key, work) => {
    const before = last.get(key) ?? Promise.resolve()
    const next = before.then(work, work)
    const settled = next
      .catch(() => {})
      .then(() => {
        if (last.get(key) === settled) last.delete(key)
      })
    last.set(key, settled)
    return next
  }
}
