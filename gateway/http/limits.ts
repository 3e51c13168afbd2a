/** What clients may take of the HTTPS listener. */
export type HttpLimits = {
  /** Connections of all clients, of one address, and such that have sent no request yet. */
  connections: number
  connectionsPerAddress: number
  silentConnections: number
  /** Requests in progress of all services, and of one. */
  requests: number
  requestsPerService: number
  /** Requests of one HTTP/1.1 connection that wait for the ones before them. */
  pipelined: number
  /** Concurrent streams of one HTTP/2 connection. */
  streams: number
  /** Requests of one connection that the client has left before their answers began, a tenth forgiven at every sweep. */
  abandonedRequests: number
  /** Size of all headers of a request together, in bytes. */
  headerBytes: number
  bodyBytes: number
  /** How long a connection may take from its start to its first request, in milliseconds. */
  firstRequestMs: number
  /** How long a connection may be open without a request in progress, in milliseconds. */
  idleMs: number
  /** In each interval a body must make so much progress, unless the service is slower than the client. */
  bodyIntervalMs: number
  bodyIntervalBytes: number
  /** How long a client may take no byte of an answer that waits for it, in milliseconds. */
  stalledMs: number
  /** How long a service may take to accept a connection, and to begin its answer, in milliseconds. */
  connectMs: number
  answerMs: number
  /** How much of an unwanted body is read, and for how long, so that the client sees the answer. */
  discardedBytes: number
  discardMs: number
  /** How often all of these times are checked. */
  sweepMs: number
}

export const httpLimits: HttpLimits = {
  connections: 10_000,
  connectionsPerAddress: 1_000,
  silentConnections: 2_000,
  requests: 5_000,
  requestsPerService: 1_000,
  pipelined: 100,
  streams: 100,
  abandonedRequests: 300,
  headerBytes: 32 * 1024,
  bodyBytes: 64 * 1024 * 1024,
  firstRequestMs: 10_000,
  idleMs: 60_000,
  bodyIntervalMs: 15_000,
  bodyIntervalBytes: 1_024,
  stalledMs: 60_000,
  connectMs: 5_000,
  answerMs: 600_000,
  discardedBytes: 1024 * 1024,
  discardMs: 5_000,
  sweepMs: 1_000,
}
