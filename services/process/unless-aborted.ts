/**
 * Waits for the work, but only until the signal is aborted. The work goes on: it may be for others as well, or not notice.
 * @throws what the work throws, or what the signal is aborted with before
 */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason)
    const end = () => signal.removeEventListener('abort', onAbort)
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) onAbort()
    work.then(
      value => {
        end()
        resolve(value)
      },
      (error: unknown) => {
        end()
        reject(error)
      },
    )
  })
}
