/** What can go wrong between a service and Postgres. */

/** Postgres refused a statement (protocol: ErrorResponse; manual section 55.8 names the fields). */
export class DatabaseError extends Error {
  /** SQLSTATE, five characters. */
  readonly sqlState: string
  readonly detail: string | null
  readonly hint: string | null
  /** Where in the statement, in characters from 1. */
  readonly position: number | null
  /** Whether Postgres ends the connection with it. */
  readonly isFatal: boolean

  constructor(fields: ReadonlyMap<string, string>) {
    super(fields.get('M') ?? 'unknown error')
    this.name = 'DatabaseError'
    this.sqlState = fields.get('C') ?? 'XX000'
    this.detail = fields.get('D') ?? null
    this.hint = fields.get('H') ?? null
    this.position = fields.has('P') ? Number(fields.get('P')) : null
    this.isFatal = fields.get('V') === 'FATAL'
  }
}

/** There is no connection: it could not be made, or it ended while it was used. */
export class ConnectionFailure extends Error {
  /** SQLSTATE, where it was Postgres that refused it, or would have for want of a password. */
  readonly sqlState: string | undefined

  constructor(message: string, sqlState?: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'ConnectionFailure'
    this.sqlState = sqlState
  }
}

/** No connection became free in time. */
export class AcquisitionTimeout extends Error {
  constructor() {
    super('no connection of the pool became free in time')
    this.name = 'AcquisitionTimeout'
  }
}

/** What was to run behind others on one connection is better run by itself. It may have run; so it is only for what can be run again. */
export class Displaced extends Error {
  constructor() {
    super('what stood before it on its connection took too long')
    this.name = 'Displaced'
  }
}
