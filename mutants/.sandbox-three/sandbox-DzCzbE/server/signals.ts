/** How a server is told to stop. */
// @ts-nocheck


/** Resolves with the signal that asks this process to stop. A second one ends it at once. */
export function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise(resolve => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      process.once(signal, () => {
        process.once(signal, () => process.exit(130))
        resolve(signal)
      })
    }
  })
}
