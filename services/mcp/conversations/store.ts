/**
 * Where conversations are kept: one interface, in SQLite or in Postgres. It promises that a user reads, changes and deletes only their own: the user is part of every statement; and that ids
 * cannot be guessed.
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
  /** The one that was changed last comes first. */
  list(username: string, limit: number, offset: number): Promise<readonly ConversationSummary[]>
  find(username: string, id: string): Promise<Conversation | undefined>
  create(username: string, content: ConversationContent): Promise<Conversation>
  /** Its title stays. @returns undefined if there is none */
  replace(username: string, id: string, content: Partial<ConversationContent>): Promise<Conversation | undefined>
  /** @returns false if there is none */
  rename(username: string, id: string, title: string): Promise<boolean>
  /** @returns false if there is none */
  remove(username: string, id: string): Promise<boolean>
  /** @returns how many there were */
  removeAll(username: string): Promise<number>
  close(): void
}

export const mostOfOneUser = 10_000

export const newConversationId = (): string => `conv_${randomBytes(18).toString('base64url')}`
