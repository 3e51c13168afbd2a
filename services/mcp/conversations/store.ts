/**
 * Stores conversations in SQLite or in Postgres, with one interface. A user can read, change and delete only their own
 * conversations: every statement filters by user, and ids cannot be guessed.
 */
import { randomBytes } from 'node:crypto'
import type { Conversation, ConversationMessage, ConversationSummary } from './conversation.ts'

export type ConversationContent = {
  readonly provider: string
  readonly model: string
  readonly connection: string
  readonly messages: readonly ConversationMessage[]
}

/** Every method throws ConversationError. */
export type ConversationStore = {
  /** Lists the last changed conversation first. */
  list(username: string, limit: number, offset: number): Promise<readonly ConversationSummary[]>
  find(username: string, id: string): Promise<Conversation | undefined>
  create(username: string, content: ConversationContent): Promise<Conversation>
  /** Keeps the title. Returns undefined if the conversation does not exist. */
  replace(username: string, id: string, content: Partial<ConversationContent>): Promise<Conversation | undefined>
  /** Returns false if the conversation does not exist. */
  rename(username: string, id: string, title: string): Promise<boolean>
  /** Returns false if the conversation does not exist. */
  remove(username: string, id: string): Promise<boolean>
  /** Returns the number of deleted conversations. */
  removeAll(username: string): Promise<number>
  close(): void
}

export const mostOfOneUser = 10_000

export const newConversationId = (): string => `conv_${randomBytes(18).toString('base64url')}`
