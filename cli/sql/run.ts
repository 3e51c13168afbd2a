/**
 * Runs statements with `pg` over TLS, and verifies the server's certificate. Rows are printed as they arrive. While the
 * output is full, reading from Postgres pauses, so that memory use stays small.
 */
import pg from 'pg'
import { program } from '../../server/program.ts'
import { escapeControls } from '../../values/escape.ts'
import type { Found } from '../connect/connection.ts'
import { CommandFailure } from '../errors.ts'
import type { Field, RowPrinter } from './print.ts'

const connectTimeoutMs = 15_000

/** The type ids of int8, int2, int4, oid, float4, float8 and numeric. */
const numbers = new Set([20, 21, 23, 26, 700, 701, 1700])
const booleans = new Set([16])
/** The type ids of json and jsonb. */
const documents = new Set([114, 3802])

function kindOf(type: number): Field['kind'] {
  if (numbers.has(type)) return 'number'
  if (booleans.has(type)) return 'boolean'
  return documents.has(type) ? 'json' : 'text'
}

type RowDescription = { fields: { name: string; dataTypeID: number }[] }
type DataRow = { fields: (string | null)[] }

/** A query in the simple protocol, which can have several statements. `pg` calls the methods of this class. */
class Statements implements pg.Submittable {
  readonly done: Promise<void>
  readonly #text: string
  readonly #printer: RowPrinter
  #hasRows = false
  #rows = 0
  #stream: pg.Connection['stream'] | undefined
  #finish: (error?: Error) => void = () => {}

  constructor(text: string, printer: RowPrinter) {
    this.#text = text
    this.#printer = printer
    this.done = new Promise((resolve, reject) => {
      this.#finish = error => (error === undefined ? resolve() : reject(error))
    })
  }

  submit(connection: pg.Connection): void {
    this.#stream = connection.stream
    connection.query(this.#text)
  }

  handleRowDescription({ fields }: RowDescription): void {
    this.#hasRows = true
    this.#rows = 0
    this.#printer.begin(fields.map(({ name, dataTypeID }) => ({ name, kind: kindOf(dataTypeID) })))
  }

  handleDataRow({ fields }: DataRow): void {
    this.#rows++
    this.#printer.row(fields)
    if (!this.#printer.isFull() || this.#stream?.isPaused()) return
    this.#stream?.pause()
    void this.#printer.drained().then(() => this.#stream?.resume())
  }

  handleCommandComplete({ text }: { text: string }): void {
    if (!this.#hasRows) this.#printer.begin([])
    this.#hasRows = false
    this.#printer.end(text, this.#rows)
  }

  handleEmptyQuery(): void {}

  handleCopyInResponse(connection: { sendCopyFail(message: string): void }): void {
    connection.sendCopyFail(`${program} sql does not support COPY FROM STDIN: use psql`)
  }

  handleCopyData({ chunk }: { chunk: Buffer }): void {
    this.#printer.copied(chunk)
  }

  handleError(error: Error): void {
    this.#finish(error)
  }

  handleReadyForQuery(): void {
    this.#finish()
  }
}

/** Builds the failure from Postgres's message and the details that help to fix the statement. */
function failureOf(error: unknown, text: string): CommandFailure {
  if (!(error instanceof pg.DatabaseError)) {
    const why = error instanceof Error ? error.message : String(error)
    return new CommandFailure(escapeControls(`cannot run the statement: ${why}`))
  }
  const { severity = 'ERROR', message, code, detail, hint, position } = error
  const line = position === undefined ? undefined : text.slice(0, Number(position)).split('\n').length
  const parts = [
    `${severity}: ${message}${code === undefined ? '' : ` (${code})`}`,
    ...(line === undefined || !text.includes('\n') ? [] : [`at line ${line}`]),
    ...(detail === undefined ? [] : [`detail: ${detail}`]),
    ...(hint === undefined ? [] : [`hint: ${hint}`]),
    // The gateway refuses the address of this machine.
    ...(/allowlist/.test(hint ?? '') ? [`to add this machine: ${program} allow me DATABASE`] : []),
  ]
  return new CommandFailure(parts.map(escapeControls).join('; '))
}

/** @throws CommandFailure with Postgres's message; results of statements before the failed one are printed */
export async function runStatements(
  { connection }: Found,
  authority: string,
  text: string,
  printer: RowPrinter,
): Promise<void> {
  const { username, password, host, port, database } = connection
  const client = new pg.Client({
    ...{ user: username, password, host, port, database },
    ssl: { ca: authority },
    connectionTimeoutMillis: connectTimeoutMs,
    application_name: 'espalier sql',
  })
  // Without this listener, a connection that breaks while no statement runs would end the process.
  client.on('error', () => {})
  client.on('notice', ({ severity, message }) => printer.notice(`${severity ?? 'NOTICE'}: ${message ?? ''}`))
  const statements = new Statements(text, printer)
  try {
    await client.connect()
    client.query(statements)
    await statements.done
  } catch (error) {
    throw failureOf(error, text)
  } finally {
    await client.end().catch(() => {})
  }
}
