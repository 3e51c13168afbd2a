/**
 * Storage of conversations: one interface, in SQLite or in Postgres. A user can read, change and delete only their own
 * conversations, since every statement filters by user; and ids cannot be guessed.
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
  /** The last changed one first. */
  list(username: string, limit: number, offset: number): Promise<readonly ConversationSummary[]>
  find(username: string, id: string): Promise<Conversation | undefined>
  create(username: string, content: ConversationContent): Promise<Conversation>
  /** Keeps the title. Returns undefined if there is none */
  replace(username: string, id: string, content: Partial<ConversationContent>): Promise<Conversation | undefined>
  /** Returns false if there is none */
  rename(username: string, id: string, title: string): Promise<boolean>
  /** Returns false if there is none */
  remove(username: string, id: string): Promise<boolean>
  /** Returns how many were deleted */
  removeAll(username: string): Promise<number>
  close(): void
}

export const mostOfOneUser = 10_000

export const newConversationId = (): string => `conv_${randomBytes(18).toString('base64url')}`
