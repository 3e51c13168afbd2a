/** How many tokens a message takes, about: by its length, by what kind of text it is, and by whose model counts. Each message costs a little by itself. */
import { wholeText } from './message.ts'
import type { Message, TokenCounterType } from './request.ts'

const counters: Readonly<
  Record<TokenCounterType, { readonly charactersPerToken: number; readonly perMessage: number }>
> = {
  generic: { charactersPerToken: 4, perMessage: 10 },
  openai: { charactersPerToken: 4, perMessage: 4 },
  anthropic: { charactersPerToken: 3.8, perMessage: 5 },
  ollama: { charactersPerToken: 4.5, perMessage: 3 },
}

const isJson = (text: string) => /^[[{]/.test(text.trimStart()) || /"[^"\n]{1,40}":/.test(text)
const isSql = (text: string) =>
  (/\bselect\b/i.test(text) && /\bfrom\b/i.test(text)) ||
  /\b(insert\s+into|update\s+\S{1,130}\s+set|create\s+(table|index|view)|delete\s+from)\b/i.test(text)
const isCode = (text: string) => /```|=>|\b(function|const|return|def|class|import)\b[^.\n]{0,80}[({;:]/.test(text)

/** Signs and short names make more tokens than words do. The first that fits counts. */
const kinds = [
  { isIt: isJson, factor: 1.3 },
  { isIt: isSql, factor: 1.15 },
  { isIt: isCode, factor: 1.2 },
]
/** The kind of a text shows in its beginning. */
const sampleCharacters = 4_000

export type TokenCounter = (message: Message) => number

export const createTokenCounter = (type: TokenCounterType): TokenCounter => {
  const { charactersPerToken, perMessage } = counters[type]
  return message => {
    const text = wholeText(message)
    const sample = text.slice(0, sampleCharacters)
    const factor = kinds.find(({ isIt }) => isIt(sample))?.factor ?? 1
    // Beyond Latin script a character is a token or more.
    const wide = text.match(/[\u0250-\uffff]/g)?.length ?? 0
    return Math.ceil(((text.length - wide) / charactersPerToken) * factor + wide) + perMessage
  }
}
