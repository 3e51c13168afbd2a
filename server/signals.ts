/** The shutdown signals of a server. */

/** Resolves with the signal that stops this process. A second signal ends it at once. */
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
