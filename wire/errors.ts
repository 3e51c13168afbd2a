/** A message that Postgres never sends. The rest of the connection's data cannot be read. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError'
  constructor(what: string) {
    super(`malformed message from Postgres: ${what}`)
  }
}

/** Postgres refused a statement (protocol: ErrorResponse; manual section 55.8 names the fields). */
export class DatabaseError extends Error {
  /** SQLSTATE, five characters. */
  readonly sqlState: string
  readonly detail: string | null
  readonly hint: string | null
  /** Position in the statement, in characters from 1. */
  readonly position: number | null
  /** Whether Postgres also closes the connection. */
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
