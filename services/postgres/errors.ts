/** Errors between a service and Postgres. */

/** There is no connection: it could not be opened, or it was closed while in use. */
export class ConnectionFailure extends Error {
  /**
   * The SQLSTATE, if Postgres refused the connection. Also set if no password is configured, because Postgres would
   * refuse then.
   */
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
 * The caller should repeat a run behind other runs of a shared connection on its own connection. The run may already
 * have run, so only repeatable runs share a connection.
 */
export class Evicted extends Error {
  constructor() {
    super('a run before it on its connection took too long')
    this.name = 'Evicted'
  }
}
