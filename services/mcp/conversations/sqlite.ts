/** Conversations in a SQLite file, for a single server. */
import { chmodSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import {
  type Conversation,
  type ConversationMessage,
  type ConversationSummary,
  previewOf,
  titleOf,
} from './conversation.ts'
import { ConversationError } from './errors.ts'
import { type ConversationContent, type ConversationStore, mostOfOneUser, newConversationId } from './store.ts'

const schema = `
  PRAGMA journal_mode = WAL;
  PRAGMA busy_timeout = 2000;
  PRAGMA secure_delete = ON;
  CREATE TABLE IF NOT EXISTS conversations (
    id text PRIMARY KEY,
    username text NOT NULL,
    title text NOT NULL,
    provider text NOT NULL,
    model text NOT NULL,
    connection text NOT NULL,
    preview text NOT NULL,
    messages text NOT NULL,
    created_at text NOT NULL,
    updated_at text NOT NULL,
    changed integer NOT NULL
  ) STRICT;
  CREATE INDEX IF NOT EXISTS conversations_by_user ON conversations (username, changed DESC);
`

type Row = Readonly<Record<string, SQLInputValue>>
const textOf = (row: Row, name: string): string => String(row[name])

const summaryOf = (row: Row): ConversationSummary => ({
  id: textOf(row, 'id'),
  title: textOf(row, 'title'),
  connection: textOf(row, 'connection'),
  created_at: textOf(row, 'created_at'),
  updated_at: textOf(row, 'updated_at'),
  preview: textOf(row, 'preview'),
})

const conversationOf = (row: Row): Conversation => ({
  id: textOf(row, 'id'),
  username: textOf(row, 'username'),
  title: textOf(row, 'title'),
  provider: textOf(row, 'provider'),
  model: textOf(row, 'model'),
  connection: textOf(row, 'connection'),
  // No other code writes this column.
  messages: JSON.parse(textOf(row, 'messages')) as ConversationMessage[],
  created_at: textOf(row, 'created_at'),
  updated_at: textOf(row, 'updated_at'),
})

/** Stores conversations in one SQLite file. Creates the directory if it is missing. Opens the file at first use. */
export class SqliteConversations implements ConversationStore {
  readonly #directory: string
  readonly #path: string
  readonly #now: () => number
  readonly #statements = new Map<string, StatementSync>()
  #database: DatabaseSync | undefined
  /** The number of the last change. It orders two changes within one millisecond. */
  #lastChange = 0

  constructor(directory: string, now: () => number = Date.now) {
    this.#directory = directory
    this.#path = join(directory, 'conversations.db')
    this.#now = now
  }

  async list(username: string, limit: number, offset: number): Promise<readonly ConversationSummary[]> {
    return this.#attempt(statement =>
      statement(
        `SELECT id, title, connection, created_at, updated_at, preview FROM conversations
         WHERE username = ? ORDER BY changed DESC LIMIT ? OFFSET ?`,
      )
        .all(username, limit, offset)
        // All columns are text.
        .map(row => summaryOf(row as Row)),
    )
  }

  async find(username: string, id: string): Promise<Conversation | undefined> {
    return this.#find(username, id)
  }

  #find(username: string, id: string): Conversation | undefined {
    return this.#attempt(statement => {
      const row = statement('SELECT * FROM conversations WHERE id = ? AND username = ?').get(id, username)
      // All columns are text or numbers.
      return row === undefined ? undefined : conversationOf(row as Row)
    })
  }

  async create(
    username: string,
    { provider, model, connection, messages }: ConversationContent,
  ): Promise<Conversation> {
    return this.#attempt(statement => {
      const counted = statement('SELECT count(*) AS count FROM conversations WHERE username = ?').get(username)
      if (Number(counted?.count) >= mostOfOneUser)
        throw new ConversationError({ kind: 'too many', most: mostOfOneUser })
      const { at, changed } = this.#stamp()
      const id = newConversationId()
      const title = titleOf(messages)
      statement('INSERT INTO conversations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)').run(
        ...[id, username, title, provider, model, connection, previewOf(messages)],
        ...[JSON.stringify(messages), at, at, changed],
      )
      return { id, username, title, provider, model, connection, messages, created_at: at, updated_at: at }
    })
  }

  async replace(
    username: string,
    id: string,
    content: Partial<ConversationContent>,
  ): Promise<Conversation | undefined> {
    const before = this.#find(username, id)
    if (before === undefined) return undefined
    const { at, changed } = this.#stamp()
    const after = { ...before, ...content, updated_at: at }
    this.#attempt(statement =>
      statement(
        `UPDATE conversations SET provider = ?, model = ?, connection = ?, preview = ?, messages = ?, updated_at = ?, changed = ?
         WHERE id = ? AND username = ?`,
      ).run(
        ...[after.provider, after.model, after.connection, previewOf(after.messages)],
        ...[JSON.stringify(after.messages), at, changed, id, username],
      ),
    )
    return after
  }

  async rename(username: string, id: string, title: string): Promise<boolean> {
    return this.#attempt(statement => {
      const { at, changed } = this.#stamp()
      const done = statement(
        'UPDATE conversations SET title = ?, updated_at = ?, changed = ? WHERE id = ? AND username = ?',
      ).run(title, at, changed, id, username)
      return Number(done.changes) === 1
    })
  }

  async remove(username: string, id: string): Promise<boolean> {
    return this.#attempt(statement => {
      const done = statement('DELETE FROM conversations WHERE id = ? AND username = ?').run(id, username)
      return Number(done.changes) === 1
    })
  }

  async removeAll(username: string): Promise<number> {
    return this.#attempt(statement =>
      Number(statement('DELETE FROM conversations WHERE username = ?').run(username).changes),
    )
  }

  close(): void {
    this.#statements.clear()
    this.#database?.close()
    this.#database = undefined
  }

  #open(): DatabaseSync {
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 })
    const opened = new DatabaseSync(this.#path)
    chmodSync(this.#path, 0o600)
    opened.exec(schema)
    const newest = opened.prepare('SELECT max(changed) AS newest FROM conversations').get()
    this.#lastChange = Number(newest?.newest ?? 0)
    return opened
  }

  #attempt<Result>(work: (statement: (text: string) => StatementSync) => Result): Result {
    try {
      this.#database ??= this.#open()
      const database = this.#database
      return work(text => {
        const known = this.#statements.get(text) ?? database.prepare(text)
        this.#statements.set(text, known)
        return known
      })
    } catch (error) {
      if (error instanceof ConversationError) throw error
      const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
      throw new ConversationError({ kind: 'storage', path: this.#path, code })
    }
  }

  #stamp(): { at: string; changed: number } {
    const at = this.#now()
    this.#lastChange = Math.max(this.#lastChange + 1, at * 1_000)
    return { at: new Date(at).toISOString(), changed: this.#lastChange }
  }
}
