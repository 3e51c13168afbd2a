/** A user's conversation with a model, and its summary in a list. */

export type ConversationMessage = {
  readonly role: string
  readonly content: string
  /** An ISO 8601 time. */
  readonly timestamp: string
  readonly provider?: string
  readonly model?: string
}

export type Conversation = {
  readonly id: string
  readonly username: string
  readonly title: string
  readonly provider: string
  readonly model: string
  /** The name of a database connection. */
  readonly connection: string
  readonly messages: readonly ConversationMessage[]
  readonly created_at: string
  readonly updated_at: string
}

export type ConversationSummary = Pick<Conversation, 'id' | 'title' | 'connection' | 'created_at' | 'updated_at'> & {
  readonly preview: string
}

const longestTitle = 50
const longestPreview = 100
const dots = '...'

/** Truncates a text without splitting a character. */
function shortened(text: string, longest: number): string {
  const characters = [...text.slice(0, 4 * longest)]
  if (characters.length <= longest) return text
  return `${characters.slice(0, longest - dots.length).join('')}${dots}`
}

const firstOfUser = (messages: readonly ConversationMessage[]): string =>
  (messages.find(({ role }) => role === 'user')?.content ?? '').replaceAll(/\s+/g, ' ').trim()

export const titleOf = (messages: readonly ConversationMessage[]): string =>
  shortened(firstOfUser(messages), longestTitle) || 'New conversation'

export const previewOf = (messages: readonly ConversationMessage[]): string =>
  shortened(firstOfUser(messages), longestPreview)
