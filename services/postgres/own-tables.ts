/**
 * Tables that a service creates in Postgres for its own records. The service creates them before its first statement,
 * and again if they disappear: for example after a restore from a backup that does not contain them. Several processes
 * may create them concurrently.
 */
import { DatabaseError } from '../../wire/errors.ts'
import { type Address, connectionAddress } from './address.ts'
import { Pool } from './pool.ts'
import type { Row, Step } from './run.ts'
import { transact } from './transact.ts'

const statementMs = 10_000
/** The statement timeout in Postgres. A connection without a response for longer than this is closed. */
const silenceMs = 5_000
const limits = { acquisitionTimeoutMs: 5_000, maximumLifetimeMs: 1_800_000, maximumIdleMs: 30_000 }
const undefinedTable = '42P01'
/** An arbitrary lock number that is used only for creating tables. */
const creationLock = 'SELECT pg_advisory_xact_lock(7305814)'

export type OwnStatementOf = { readonly text: string; readonly values: readonly (string | number)[] }
type Result = { readonly rows: readonly Row[]; readonly affected: number }

type Overrides = { readonly password?: string | undefined; readonly sslrootcert?: string | undefined }

/**
 * The address from a URL and the settings next to it. A password in these settings replaces the URL's password.
 * Environment variables of Postgres are ignored, since they are for other databases.
 * @throws AddressError
 */
export function ownAddress(url: string, { password, sslrootcert }: Overrides): Address {
  const address = connectionAddress(url, { PGSSLROOTCERT: sslrootcert })
  return { ...address, password: password ?? address.password }
}

type OwnTablesSettings = {
  readonly address: Address
  readonly applicationName: string
  readonly definitions: readonly string[]
  /** The maximum number of connections. */
  readonly size: number
}

const stepOf = ({ text, values }: OwnStatementOf): Step => ({ text, values: values.map(String), isUnnamed: true })

export class OwnTables {
  readonly #definitions: readonly Step[]
  readonly #pool: Pool
  #created: Promise<void> | undefined

  constructor({ address, applicationName, definitions, size }: OwnTablesSettings) {
    const options = [address.options, `-c statement_timeout=${statementMs}`].filter(Boolean).join(' ')
    this.#pool = new Pool({ address: { ...address, options, applicationName }, size, ...limits }, Date.now)
    this.#definitions = [creationLock, ...definitions].map(text => stepOf({ text, values: [] }))
  }

  /** Creates missing tables. @throws what `Pool.acquire` throws; DatabaseError */
  create(): Promise<void> {
    this.#created ??= this.#transaction(this.#definitions).then(
      () => {},
      (error: unknown) => {
        this.#created = undefined
        throw error
      },
    )
    return this.#created
  }

  /**
   * Runs statements in one transaction. @returns the result of the last statement @throws what `Pool.acquire` throws;
   * DatabaseError
   */
  async run(...statements: readonly OwnStatementOf[]): Promise<Result> {
    const steps = statements.map(stepOf)
    await this.create()
    try {
      return await this.#transaction(steps)
    } catch (error) {
      if (!(error instanceof DatabaseError && error.sqlState === undefinedTable)) throw error
      this.#created = undefined
      await this.create()
      return await this.#transaction(steps)
    }
  }

  close(): void {
    this.#pool.close()
  }

  #transaction(steps: readonly Step[]): Promise<Result> {
    return transact(this.#pool, AbortSignal.timeout(statementMs + silenceMs), async connection => {
      const rows = await connection.run(steps, false)
      return { rows: rows.at(-1) ?? [], affected: connection.affected.at(-1) ?? 0 }
    })
  }
}
