/**
 * Conversations in a Postgres table, which several replicas can share. User texts are stored as JSON, because Postgres
 * accepts no zero bytes in a text. While Postgres is unavailable, every method throws a ConversationError of the kind
 * `unavailable`.
 */
import { z } from 'zod'
import { DatabaseError } from '../../../wire/errors.ts'
import type { Address } from '../../postgres/address.ts'
import { AcquisitionTimeout, ConnectionFailure } from '../../postgres/errors.ts'
import { type OwnStatementOf, OwnTables } from '../../postgres/own-tables.ts'
import type { Row } from '../../postgres/run.ts'
import {
  type Conversation,
  type ConversationMessage,
  type ConversationSummary,
  previewOf,
  titleOf,
} from './conversation.ts'
import { ConversationError } from './errors.ts'
import { type ConversationContent, type ConversationStore, mostOfOneUser, newConversationId } from './store.ts'

const table = 'espalier_conversations'
/**
 * Two connections are enough, because user interfaces send few requests. The connections count against the database's
 * limit.
 */
const mostConnections = 2
const definitions = [
  `CREATE TABLE IF NOT EXISTS ${table} (
     id text PRIMARY KEY, username text NOT NULL, title text NOT NULL, provider text NOT NULL, model text NOT NULL,
     connection text NOT NULL, preview text NOT NULL, messages text NOT NULL, created_at text NOT NULL,
     updated_at text NOT NULL, changed bigint NOT NULL)`,
  `CREATE INDEX IF NOT EXISTS ${table}_by_user ON ${table} (username, changed DESC)`,
]
/** Of two changes of one user, the later change has the greater number. The numbers do not depend on clocks. */
const nextChange = (username: string, at: string) =>
  `(SELECT greatest(${at}::bigint, coalesce(max(changed), 0) + 1) FROM ${table} WHERE username = ${username})`
const columns = 'id, username, title, provider, model, connection, messages, created_at, updated_at'
const summaryColumns = 'id, title, connection, created_at, updated_at, preview'

/**
 * The SQLSTATE classes for an unavailable Postgres: no connection, no resources, shutdown, broken storage. Also a
 * read-only server.
 */
const unavailable = /^(08|28|53|57P|58|25006)/

const text = z.string()
const textsOf = (row: Row): string[] => row.map(cell => cell?.toString() ?? '')
const plain = (json: string | undefined): string => text.parse(JSON.parse(json ?? '""'))

function summaryOf(row: Row): ConversationSummary {
  const [id = '', title, connection, created_at = '', updated_at = '', preview] = textsOf(row)
  return { id, title: plain(title), connection: plain(connection), created_at, updated_at, preview: plain(preview) }
}

function conversationOf(row: Row): Conversation {
  const [id = '', username = '', title, provider, model, connection, messages = '[]', ...times] = textsOf(row)
  const [created_at = '', updated_at = ''] = times
  return {
    id,
    username,
    title: plain(title),
    provider: plain(provider),
    model: plain(model),
    connection: plain(connection),
    // No other code writes this column.
    messages: JSON.parse(messages) as ConversationMessage[],
    created_at,
    updated_at,
  }
}

function unavailabilityOf(error: unknown): string | undefined {
  if (error instanceof ConnectionFailure || error instanceof AcquisitionTimeout) return error.message
  return error instanceof DatabaseError && unavailable.test(error.sqlState) ? error.message : undefined
}

export class PostgresConversations implements ConversationStore {
  readonly #tables: OwnTables
  readonly #now: () => number

  constructor(address: Address, now: () => number = Date.now) {
    this.#tables = new OwnTables({ address, applicationName: 'espalier-mcp', definitions, size: mostConnections })
    this.#now = now
  }

  async list(username: string, limit: number, offset: number): Promise<readonly ConversationSummary[]> {
    const ordered = 'ORDER BY changed DESC, id LIMIT $2 OFFSET $3'
    const { rows } = await this.#run({
      text: `SELECT ${summaryColumns} FROM ${table} WHERE username = $1 ${ordered}`,
      values: [username, limit, offset],
    })
    return rows.map(summaryOf)
  }

  async find(username: string, id: string): Promise<Conversation | undefined> {
    const { rows } = await this.#run({
      text: `SELECT ${columns} FROM ${table} WHERE username = $1 AND id = $2`,
      values: [username, id],
    })
    return rows.map(conversationOf)[0]
  }

  async create(username: string, { messages, ...content }: ConversationContent): Promise<Conversation> {
    const { provider, model, connection } = content
    const at = this.#stamp()
    const id = newConversationId()
    const title = titleOf(messages)
    const texts = [title, provider, model, connection, previewOf(messages), messages].map(one => JSON.stringify(one))
    // The lock serializes concurrent counts, so that each count includes the other's inserts.
    const { affected } = await this.#run(
      { text: 'SELECT pg_advisory_xact_lock(hashtextextended($1, 7305814))', values: [username] },
      {
        text: `INSERT INTO ${table} SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $9, ${nextChange('$2', '$10')}
          WHERE (SELECT count(*) FROM ${table} WHERE username = $2) < ${mostOfOneUser}`,
        values: [id, username, ...texts, at.text, at.changed],
      },
    )
    if (affected !== 1) throw new ConversationError({ kind: 'too many', most: mostOfOneUser })
    return { id, username, title, ...content, messages, created_at: at.text, updated_at: at.text }
  }

  async replace(
    username: string,
    id: string,
    { provider, model, connection, messages }: Partial<ConversationContent>,
  ): Promise<Conversation | undefined> {
    const at = this.#stamp()
    const parameterOf = (value: unknown) => (value === undefined ? '' : JSON.stringify(value))
    const unlessEmpty = (name: string, position: number) => `${name} = coalesce(nullif($${position}, ''), ${name})`
    const { rows } = await this.#run({
      text: `UPDATE ${table} SET ${unlessEmpty('provider', 3)}, ${unlessEmpty('model', 4)}, ${unlessEmpty('connection', 5)},
          ${unlessEmpty('messages', 6)}, ${unlessEmpty('preview', 7)}, updated_at = $8, changed = ${nextChange('$1', '$9')}
        WHERE username = $1 AND id = $2 RETURNING ${columns}`,
      values: [
        ...[username, id, parameterOf(provider), parameterOf(model), parameterOf(connection), parameterOf(messages)],
        ...[parameterOf(messages && previewOf(messages)), at.text, at.changed],
      ],
    })
    return rows.map(conversationOf)[0]
  }

  async rename(username: string, id: string, title: string): Promise<boolean> {
    const at = this.#stamp()
    const { affected } = await this.#run({
      text: `UPDATE ${table} SET title = $3, updated_at = $4, changed = ${nextChange('$1', '$5')} WHERE username = $1 AND id = $2`,
      values: [username, id, JSON.stringify(title), at.text, at.changed],
    })
    return affected === 1
  }

  async remove(username: string, id: string): Promise<boolean> {
    const { affected } = await this.#run({
      text: `DELETE FROM ${table} WHERE username = $1 AND id = $2`,
      values: [username, id],
    })
    return affected === 1
  }

  async removeAll(username: string): Promise<number> {
    return (await this.#run({ text: `DELETE FROM ${table} WHERE username = $1`, values: [username] })).affected
  }

  close(): void {
    this.#tables.close()
  }

  async #run(...statements: readonly OwnStatementOf[]) {
    // No user name or id contains a zero byte, so a statement with such a value finds nothing.
    const safe = statements.map(({ text: sql, values }) => ({
      text: sql,
      values: values.map(value => (typeof value === 'string' ? value.replaceAll('\0', '\u2400') : value)),
    }))
    try {
      return await this.#tables.run(...safe)
    } catch (error) {
      const reason = unavailabilityOf(error)
      throw reason === undefined ? error : new ConversationError({ kind: 'unavailable', reason }, error)
    }
  }

  #stamp(): { text: string; changed: number } {
    const at = this.#now()
    return { text: new Date(at).toISOString(), changed: at * 1_000 }
  }
}
