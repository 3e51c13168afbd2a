/**
 * Conversations, kept in a SQLite file. It promises that a user finds, changes and removes their own and nobody else's: the user is part of
 * every statement; and that ids cannot be guessed.
 */
import { randomBytes } from 'node:crypto'
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

type ConversationContent = {
  readonly provider: string
  readonly model: string
  readonly connection: string
  readonly messages: readonly ConversationMessage[]
}

export type Conversations = {
  /** The one that was changed last comes first. */
  list(username: string, limit: number, offset: number): readonly ConversationSummary[]
  create(username: string, content: ConversationContent): Conversation
  find(username: string, id: string): Conversation | undefined
  /** Its title stays; undefined where there is none. */
  replace(username: string, id: string, content: Partial<ConversationContent>): Conversation | undefined
  rename(username: string, id: string, title: string): boolean
  remove(username: string, id: string): boolean
  /** @returns how many there were */
  removeAll(username: string): number
  close(): void
}

const mostOfOneUser = 10_000

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
  // Nobody but this file writes it.
  messages: JSON.parse(textOf(row, 'messages')) as ConversationMessage[],
  created_at: textOf(row, 'created_at'),
  updated_at: textOf(row, 'updated_at'),
})

/** In a file of the folder, which is made where it is not there. It is opened when it is first needed. */
export function createConversations(directory: string, now: () => number = Date.now): Conversations {
  const path = join(directory, 'conversations.db')
  let database: DatabaseSync | undefined
  const statements = new Map<string, StatementSync>()
  /** Two changes in one millisecond are still one after the other. */
  let lastChange = 0

  function open(): DatabaseSync {
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    const opened = new DatabaseSync(path)
    chmodSync(path, 0o600)
    opened.exec(schema)
    const newest = opened.prepare('SELECT max(changed) AS newest FROM conversations').get()
    lastChange = Number(newest?.newest ?? 0)
    return opened
  }

  function attempt<Result>(work: (statement: (text: string) => StatementSync) => Result): Result {
    try {
      const opened = database ?? open()
      database = opened
      return work(text => {
        const known = statements.get(text) ?? opened.prepare(text)
        statements.set(text, known)
        return known
      })
    } catch (error) {
      if (error instanceof ConversationError) throw error
      const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
      throw new ConversationError({ kind: 'storage', path, code })
    }
  }

  function stamp(): { at: string; changed: number } {
    const at = now()
    lastChange = Math.max(lastChange + 1, at * 1_000)
    return { at: new Date(at).toISOString(), changed: lastChange }
  }

  const find = (username: string, id: string): Conversation | undefined =>
    attempt(statement => {
      const row = statement('SELECT * FROM conversations WHERE id = ? AND username = ?').get(id, username)
      // Every column is text or a number.
      return row === undefined ? undefined : conversationOf(row as Row)
    })

  return {
    find,
    list: (username, limit, offset) =>
      attempt(statement =>
        statement(
          `SELECT id, title, connection, created_at, updated_at, preview FROM conversations
           WHERE username = ? ORDER BY changed DESC LIMIT ? OFFSET ?`,
        )
          .all(username, limit, offset)
          // Every column is text.
          .map(row => summaryOf(row as Row)),
      ),
    create: (username, { provider, model, connection, messages }) =>
      attempt(statement => {
        const counted = statement('SELECT count(*) AS count FROM conversations WHERE username = ?').get(username)
        if (Number(counted?.count) >= mostOfOneUser)
          throw new ConversationError({ kind: 'too many', most: mostOfOneUser })
        const { at, changed } = stamp()
        const id = `conv_${randomBytes(18).toString('base64url')}`
        const title = titleOf(messages)
        statement('INSERT INTO conversations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)').run(
          ...[id, username, title, provider, model, connection, previewOf(messages)],
          ...[JSON.stringify(messages), at, at, changed],
        )
        return { id, username, title, provider, model, connection, messages, created_at: at, updated_at: at }
      }),
    replace(username, id, content) {
      const before = find(username, id)
      if (before === undefined) return undefined
      const { at, changed } = stamp()
      const after = { ...before, ...content, updated_at: at }
      attempt(statement =>
        statement(
          `UPDATE conversations SET provider = ?, model = ?, connection = ?, preview = ?, messages = ?, updated_at = ?, changed = ?
           WHERE id = ? AND username = ?`,
        ).run(
          ...[after.provider, after.model, after.connection, previewOf(after.messages)],
          ...[JSON.stringify(after.messages), at, changed, id, username],
        ),
      )
      return after
    },
    rename: (username, id, title) =>
      attempt(statement => {
        const { at, changed } = stamp()
        const done = statement(
          'UPDATE conversations SET title = ?, updated_at = ?, changed = ? WHERE id = ? AND username = ?',
        ).run(title, at, changed, id, username)
        return Number(done.changes) === 1
      }),
    remove: (username, id) =>
      attempt(statement => {
        const done = statement('DELETE FROM conversations WHERE id = ? AND username = ?').run(id, username)
        return Number(done.changes) === 1
      }),
    removeAll: username =>
      attempt(statement => Number(statement('DELETE FROM conversations WHERE username = ?').run(username).changes)),
    close() {
      statements.clear()
      database?.close()
      database = undefined
    },
  }
}
