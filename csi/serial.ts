/** Serialises calls per key: two calls about one volume never overlap. */
export type Serial = <T>(key: string, work: () => Promise<T>) => Promise<T>

export function createSerial(): Serial {
  const last = new Map<string, Promise<unknown>>()
  return (key, work) => {
    const before = last.get(key) ?? Promise.resolve()
    const next = before.then(work, work)
    const current = next
      .catch(() => {})
      .then(() => {
        if (last.get(key) === current) last.delete(key)
      })
    last.set(key, current)
    return next
  }
}
