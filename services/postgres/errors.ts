/** Errors between a service and Postgres. */

/** No connection: it could not be opened, or it was closed while in use. */
export class ConnectionFailure extends Error {
  /** SQLSTATE, if Postgres refused the connection, or would have because no password is set. */
  readonly sqlState: string | undefined

  constructor(message: string, sqlState?: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'ConnectionFailure'
    this.sqlState = sqlState
  }
}

/** No connection became free before the timeout. */
export class AcquisitionTimeout extends Error {
  constructor() {
    super('no connection of the pool became free in time')
    this.name = 'AcquisitionTimeout'
  }
}

/**
 * A run behind others on a shared connection should be repeated on its own connection. It may have run, so only
 * repeatable runs share a connection.
 */
export class Evicted extends Error {
  constructor() {
    super('a run before it on its connection took too long')
    this.name = 'Evicted'
  }
}
