/**
 * The only connection of a load. Statements run one after another, and each call is one transaction. Errors are
 * LoadErrors that name the remedy.
 */
import { DatabaseError } from '../../../wire/errors.ts'
import type { Address } from '../../postgres/address.ts'
import { type Cells, cellsOf } from '../../postgres/cells.ts'
import { Connection } from '../../postgres/connection.ts'
import { ConnectionFailure } from '../../postgres/errors.ts'
import { LoadError } from './errors.ts'

export type Statement = { readonly text: string; readonly values?: readonly string[] }
/** The rows of a statement, and the number of rows that it wrote. */
type Outcome = { readonly rows: readonly Cells[]; readonly affected: number }

/** A load may be slow, so the role's statement timeout does not apply. */
const sessionText = `SELECT pg_catalog.set_config('statement_timeout', '0', false), pg_catalog.set_config('idle_session_timeout', '0', false),
  pg_catalog.set_config('standard_conforming_strings', 'on', false)`

export class LoadDatabase {
  readonly #connection: Connection
  readonly #user: string
  #last: Promise<unknown> = Promise.resolve()

  private constructor(connection: Connection, user: string) {
    this.#connection = connection
    this.#user = user
  }

  /** @throws LoadError */
  static async open(address: Address): Promise<LoadDatabase> {
    // The server's own connections may prefer a standby, but a load must write.
    const sessionAttributes = address.hosts.length > 1 ? 'primary' : 'any'
    const writable: Address = { ...address, sessionAttributes, applicationName: 'espalier rag load' }
    try {
      const connection = await Connection.open(writable, Date.now, () => {})
      const database = new LoadDatabase(connection, address.user)
      await database.transaction([{ text: sessionText }])
      return database
    } catch (error) {
      throw loadError(error, address.user)
    }
  }

  /** @throws LoadError */
  async query(text: string, values: readonly string[] = []): Promise<Outcome> {
    const [outcome] = await this.transaction([{ text, values }])
    return outcome ?? { rows: [], affected: 0 }
  }

  /** Runs all statements as one transaction. @throws LoadError */
  transaction(statements: readonly Statement[]): Promise<readonly Outcome[]> {
    const run = this.#last.then(() => this.#run(statements))
    this.#last = run.catch(() => undefined)
    return run
  }

  /** Cancels the running statement. */
  cancel(): void {
    this.#connection.cancel()
  }

  close(): void {
    this.#connection.close()
  }

  async #run(statements: readonly Statement[]): Promise<readonly Outcome[]> {
    try {
      const steps = statements.map(({ text, values = [] }) => ({ text, values, isDescribed: true as const }))
      const rows = await this.#connection.run(steps, false)
      const { fields, affected } = this.#connection
      return rows.map((own, index) => ({
        rows: cellsOf({
          columns: fields[index] ?? [],
          rows: own.map(row => row.map(cell => cell?.toString('utf8') ?? null)),
        }),
        affected: affected[index] ?? 0,
      }))
    } catch (error) {
      throw loadError(error, this.#user)
    }
  }
}

const otherRole = 'Load with a role that may write: --database-url, or PGUSER and PGPASSWORD'

function loadError(error: unknown, user: string): unknown {
  if (error instanceof ConnectionFailure) {
    const refused = error.sqlState?.startsWith('28') ? '' : '; loaded data is kept, and the same command continues'
    return new LoadError(`Postgres: ${error.message}${refused}`, error)
  }
  if (!(error instanceof DatabaseError)) return error
  const { sqlState, message, detail } = error
  if (sqlState === '42501') return new LoadError(`the role ${JSON.stringify(user)}: ${message}. ${otherRole}`, error)
  if (sqlState === '25006') {
    return new LoadError(
      `the sessions of role ${JSON.stringify(user)} are read-only here: ${message}. ${otherRole}`,
      error,
    )
  }
  return new LoadError(`Postgres: ${message}${detail === null ? '' : ` (${detail})`}`, error)
}
