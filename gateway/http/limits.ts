/** Limits of the HTTPS listener's clients. */
export type HttpLimits = {
  /** The maximum number of connections: of all clients, of one address, and without a request so far. */
  connections: number
  connectionsPerAddress: number
  silentConnections: number
  /** The maximum number of requests in progress: of all services, and of one service. */
  requests: number
  requestsPerService: number
  /** The maximum number of pipelined requests of one HTTP/1.1 connection. */
  pipelined: number
  /** The maximum number of concurrent streams of one HTTP/2 connection. */
  streams: number
  /**
   * The maximum number of requests of one connection that the client has cancelled before their responses started.
   * Every sweep subtracts a tenth.
   */
  abandonedRequests: number
  /** The maximum total size of a request's headers, in bytes. */
  headerBytes: number
  bodyBytes: number
  /** How long a connection may take from its start to its first request, in milliseconds. */
  firstRequestMs: number
  /** How long a connection may be open without a request in progress, in milliseconds. */
  idleMs: number
  /** In each interval, at least this many bytes of a body must arrive, unless the service is slower than the client. */
  bodyIntervalMs: number
  bodyIntervalBytes: number
  /** How long a client may read nothing of a pending response, in milliseconds. */
  stalledMs: number
  /** How long a service may take to accept a connection, and to start its response, in milliseconds. */
  connectMs: number
  answerMs: number
  /** How much of an unwanted body is read, and for how long, so that the client receives the response. */
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
