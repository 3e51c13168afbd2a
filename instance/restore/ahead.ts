/** The results in order, while up to `most` following ones are pending. */
export async function* ahead<Item, Result>(
  items: readonly Item[],
  most: number,
  read: (item: Item, index: number) => Promise<Result>,
): AsyncGenerator<Result> {
  const running: Promise<Result>[] = []
  for (let next = 0; next < items.length || running.length > 0; ) {
    for (; next < items.length && running.length <= most; next++) {
      const result = read(items[next] as Item, next) // within the list
      // It is awaited later in order; until then its rejection must not be unhandled.
      result.catch(() => {})
      running.push(result)
    }
    const first = running.shift()
    if (first !== undefined) yield await first
  }
}
