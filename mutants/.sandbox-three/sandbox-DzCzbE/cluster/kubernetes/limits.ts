/** How long the adapter waits for an API server, and how much it takes from one. */
// @ts-nocheck


export type Limits = {
  /** Until a connection stands, TLS included, in ms. */
  connectMs: number
  /** Until an ordinary answer has come whole, in ms. */
  answerMs: number
  /** How long a watch may bring nothing, not even a bookmark (kube-apiserver sends one a minute), in ms. */
  watchIdleMs: number
  /** How long the server is asked to keep a watch open, in s: a random time from one to two of these. */
  watchSeconds: number
  /** The largest answer to an ordinary request, in bytes. */
  answerBytes: number
  /** The largest event of a watch, in bytes; the API server takes no object above 3 MiB. */
  eventBytes: number
  /** The most of a log that is asked for, in bytes. */
  logBytes: number
  /** Ordinary requests under way at once; more wait their turn. */
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
