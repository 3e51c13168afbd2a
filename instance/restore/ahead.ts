/** Yields the results in order. Meanwhile, up to `most` following results are pending. */
export async function* ahead<Item, Result>(
  items: readonly Item[],
  most: number,
  read: (item: Item, index: number) => Promise<Result>,
): AsyncGenerator<Result> {
  const running: Promise<Result>[] = []
  for (let next = 0; next < items.length || running.length > 0; ) {
    for (; next < items.length && running.length <= most; next++) {
      const result = read(items[next] as Item, next) // the index is within the list
      // The loop awaits it later, in order. Until then, a rejection must not count as unhandled.
      result.catch(() => {})
      running.push(result)
    }
    const first = running.shift()
    if (first !== undefined) yield await first
  }
}
