/** How long the adapter waits for an API server, and how much data it accepts. */

export type Limits = {
  /** The time until a connection is established, including TLS, in ms. */
  connectMs: number
  /** The time until an ordinary response is complete, in ms. */
  answerMs: number
  /** How long a watch may be silent, without even a bookmark (kube-apiserver sends one per minute), in ms. */
  watchIdleMs: number
  /** How long the server should keep a watch open, in s: a random time between this value and twice this value. */
  watchSeconds: number
  /** The largest ordinary response, in bytes. */
  answerBytes: number
  /** The largest event of a watch, in bytes. The API server accepts no object above 3 MiB. */
  eventBytes: number
  /** The maximum number of log bytes in one request. */
  logBytes: number
  /** The maximum number of concurrent ordinary requests. More requests wait in a queue. */
  connections: number
}

export const defaultLimits: Limits = {
  connectMs: 10_000,
  answerMs: 30_000,
  watchIdleMs: 150_000,
  watchSeconds: 240,
  answerBytes: 64 * 1024 * 1024,
  eventBytes: 8 * 1024 * 1024,
  logBytes: 8 * 1024 * 1024,
  connections: 64,
}
