/** Converts a service's answer for the page, which shows all parts as text. Pure. */
import type { Schemas } from '../api/client.ts'
import { formatJson } from './format-json.ts'
import type { ServiceType } from './services.ts'

export type ServiceAnswer = Schemas['ServiceAnswer']

type Part = { label: string; text: string }
type Source = { id: string; score: string; content: string }
type AnswerView =
  | { kind: 'body'; text: string }
  | { kind: 'tool'; isError: boolean; parts: Part[] }
  | { kind: 'fault'; message: string }
  | { kind: 'answer'; text: string; sources: Source[] }

type Fields = Record<string, unknown>
const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null

const textOf = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value ?? ''))

/** Adds line breaks and indents to JSON. Returns other text unchanged. */
const readable = (text: string): string => formatJson(text, '  ') ?? text

function partOf(part: unknown): Part {
  if (!isFields(part)) return { label: '', text: textOf(part) }
  const label = textOf(part.type)
  if (part.type === 'text' && typeof part.text === 'string') return { label, text: readable(part.text) }
  return { label, text: readable(JSON.stringify(part)) }
}

function toolView({ content, isError, structuredContent, error }: Fields): AnswerView | undefined {
  if (isFields(error)) {
    const { message, data } = error
    const problem = isFields(data) && typeof data.problem === 'string' ? `: ${data.problem}` : ''
    return { kind: 'fault', message: `${textOf(message)}${problem}` }
  }
  if (!Array.isArray(content)) return undefined
  const structured =
    structuredContent === undefined
      ? []
      : [{ label: 'structuredContent', text: readable(JSON.stringify(structuredContent)) }]
  return { kind: 'tool', isError: isError === true, parts: [...content.map(partOf), ...structured] }
}

function ragView({ answer, sources }: Fields): AnswerView | undefined {
  if (typeof answer !== 'string') return undefined
  const list = Array.isArray(sources) ? sources.filter(isFields) : []
  const shown = list.map(({ id, score, content }) => ({
    id: textOf(id),
    score: typeof score === 'number' ? score.toFixed(3) : '',
    content: textOf(content),
  }))
  return { kind: 'answer', text: answer, sources: shown }
}

function structuredView(type: ServiceType, body: string): AnswerView | undefined {
  if (type === 'rest') return undefined
  try {
    const parsed: unknown = JSON.parse(body)
    if (!isFields(parsed)) return undefined
    return type === 'mcp' ? toolView(parsed) : ragView(parsed)
  } catch {
    // The body is not JSON, or it is nested too deeply for JSON.stringify.
    return undefined
  }
}

export function viewOf(type: ServiceType, { body, truncated }: ServiceAnswer): AnswerView {
  if (truncated) return { kind: 'body', text: body }
  return structuredView(type, body) ?? { kind: 'body', text: readable(body) }
}

const hints: Record<ServiceType, Partial<Record<number, AnswerHint>>> = {
  rest: { 401: 'restToken', 403: 'restGrant', 404: 'restPath' },
  mcp: { 401: 'mcpToken' },
  rag: { 404: 'ragPipeline' },
}
type AnswerHint = 'restToken' | 'restGrant' | 'restPath' | 'mcpToken' | 'ragPipeline' | 'failed'

/** Returns whether a privilege is missing. The status of this error is 400 if the request has no token. */
const isDenied = (body: string): boolean => /"code" *: *"42501"/.test(body)

/** Returns the hint for an error. Returns undefined if the answer is not an error, or if there is no hint for it. */
export function hintOf(type: ServiceType, { status, body }: ServiceAnswer): AnswerHint | undefined {
  if (type === 'rest' && status >= 400 && isDenied(body)) return 'restGrant'
  return hints[type][status] ?? (status >= 500 ? 'failed' : undefined)
}
