/** How long the adapter waits for an API server, and how much data it accepts. */

export type Limits = {
  /** Until a connection is established, TLS included, in ms. */
  connectMs: number
  /** Until an ordinary response is complete, in ms. */
  answerMs: number
  /** How long a watch may send nothing, not even a bookmark (kube-apiserver sends one per minute), in ms. */
  watchIdleMs: number
  /** How long the server is requested to keep a watch open, in s: random, from one to two times this. */
  watchSeconds: number
  /** The largest ordinary response, in bytes. */
  answerBytes: number
  /** The largest event of a watch, in bytes; the API server accepts no object above 3 MiB. */
  eventBytes: number
  /** The most log bytes requested. */
  logBytes: number
  /** Concurrent ordinary requests; more wait in a queue. */
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
