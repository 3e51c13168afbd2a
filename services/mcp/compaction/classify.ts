/** Classifies how important a message is for the messages after it. */
import { type ToolMention, toolMentions, wordsOf } from './message.ts'
import { type CompactionRequest, type Message, type MessageClass, messageClasses } from './request.ts'

type Preserved = Pick<CompactionRequest['options'], 'preserve_tool_results' | 'preserve_schema_info'>

/**
 * Lasting instructions of the user: commands at the beginning of a clause, "must", and rules. The word "constraint"
 * needs a colon, because it mostly means a table's constraint. The number of blanks is limited: in a text of only
 * blanks, each blank would start another scan.
 */
const rules = [
  /(?:^|[.!?;:,\n]\s{0,16}|\b(?:please|and|but) )(?:always|never|do not|don['’]t|remember (?:that|to))\b/i,
  /\b(?:must|should|shall|may) (?:not|never|always|only)\b|\b(?:you|we|it|they|this|that|everything|all) must\b/i,
  /\bfrom now on\b|\b(?:important|note|rule|requirement|constraint|correction|remember)s?:/i,
]
const schemaTools = new Set(['get_schema_info'])
const schemaText = /\b(create|alter)\s+(table|view|index|type|materialized)\b/i
const findings =
  /\b(root cause|conclusion|decided|decision|in summary|to summarise|to summarize|recommend|turns out|the answer is|found that)\b/i
const pleasantry =
  /^(ok(ay)?|thanks?( you)?( very much)?|great|perfect|nice|sure|got it|hello|hi|hey|good (morning|evening)|bye|cool|done)\W*$/i
const substance = /\?|\b(select|from|where|join|table|column|index|schema|error|query|plan|vacuum)\b/i
const shortWords = 40

export const moreImportant = (one: MessageClass, other: MessageClass): MessageClass =>
  messageClasses.indexOf(one) <= messageClasses.indexOf(other) ? one : other

function classOfWords(role: string, words: string): MessageClass {
  const trimmed = words.trim()
  if (trimmed === '' || pleasantry.test(trimmed)) return 'transient'
  if (role === 'user' && rules.some(rule => rule.test(trimmed))) return 'anchor'
  if (role === 'assistant' && findings.test(trimmed)) return 'important'
  return substance.test(trimmed) || trimmed.length > 10 * shortWords ? 'contextual' : 'routine'
}

function classOfTools(mentions: readonly ToolMention[], isSchema: boolean, preserved: Preserved): MessageClass {
  if (isSchema) return preserved.preserve_schema_info ? 'important' : 'contextual'
  if (mentions.length === 0) return 'transient'
  return preserved.preserve_tool_results ? 'important' : 'routine'
}

/** `toolNames`: names by call id, because a result may lack its tool's name. */
export function classify(message: Message, preserved: Preserved, toolNames: ReadonlyMap<string, string>): MessageClass {
  if (message.role === 'system' || message.role === 'developer') return 'anchor'
  const mentions = toolMentions(message)
  const words = wordsOf(message)
  const isSchema =
    schemaText.test(words) || mentions.some(({ id, name }) => schemaTools.has(name ?? toolNames.get(id) ?? ''))
  return moreImportant(classOfWords(message.role, words), classOfTools(mentions, isSchema, preserved))
}

export const toolNamesOf = (messages: readonly Message[]): ReadonlyMap<string, string> =>
  new Map(messages.flatMap(toolMentions).flatMap(({ id, name }) => (name === undefined ? [] : [[id, name] as const])))
