/** One rule of where our answers are not those of PostgREST 12.0.2, and what rules are made of. */
import type { Answer } from '../../../../testing/client.ts'
import type { Asked } from '../request.ts'

type Facts = { readonly asked: Asked; readonly theirs: Answer }

export type Rule = {
  /** What holds for ours. */
  readonly rule: string
  /** Each from release notes of PostgREST with the number of the change, the contract, or the words of our documentation. */
  readonly source: readonly string[]
  /** The request that means the same to 12.0.2; undefined where this one does. */
  readonly asks?: (asked: Asked) => Asked | undefined
  /** What ours has to answer where PostgREST answers `theirs`: one of these; none where the rule says nothing of it. */
  readonly answers?: (facts: Facts) => readonly Answer[]
  /** What both answers have to have in common, of what else chance or a planner decides; undefined where the rule says nothing of it. */
  readonly reduces?: (answer: Answer) => Answer | undefined
  /** Requests of which ours may have the answer, as PostgREST gives it, in place of theirs. */
  readonly instead?: (facts: Facts & { readonly ours: Answer }) => Iterable<Asked>
}

export type Fault = {
  readonly code: string
  readonly message: string
  readonly details: unknown
  readonly hint: unknown
}

/** What an error says, its code with our prefix; undefined where the answer is no error with a code. */
export function faultOf({ status, text }: Answer): Fault | undefined {
  if (status < 300 || !text.startsWith('{"code":')) return undefined
  const { code, message, details, hint }: Record<string, unknown> = JSON.parse(text)
  return { code: String(code).replace(/^PGRST/, 'RST'), message: String(message), details, hint }
}

export const codeOf = ({ text }: Pick<Answer, 'text'>): string => /^\{"code":"(?:PG)?([^"]*)"/.exec(text)?.[1] ?? ''

/** Errors of the database that are the server's fault by their codes. */
export const ofServer = /^(21|42P17|53400|54|55)/

/** Whether it is an answer, or an error with a code that is not that of a fault of ours. */
export const isCoded = (answer: Pick<Answer, 'status' | 'text'>): boolean =>
  answer.status < 300 || answer.text === '' || !/^(RST000)?$/.test(codeOf(answer))

export const isDone = ({ status }: Answer): boolean => status < 300
export const isOfDatabase = (answer: Answer): boolean => /^[0-9A-Z]{5}$/.test(codeOf(answer))

/** The answer with these headers more; undefined takes one away. */
export function withHeaders(answer: Answer, more: Readonly<Record<string, string | undefined>>): Answer {
  const headers = Object.entries({ ...answer.headers, ...more }).filter(([, text]) => text !== undefined)
  return { ...answer, headers: Object.fromEntries(headers) }
}

/** The error in other words, with another status where that is given. */
export function withFault(answer: Answer, more: Partial<Fault>, status = answer.status): Answer {
  const plain = { code: '', message: '', details: null, hint: null }
  return { ...answer, status, text: JSON.stringify({ ...plain, ...faultOf(answer), ...more }) }
}

/** An error in place of any answer. */
export const refused = (status: number, fault: Partial<Fault>): Answer => ({
  status,
  statusText: '',
  headers: { 'content-type': 'application/json; charset=utf-8' },
  text: JSON.stringify({ code: '', message: '', details: null, hint: null, ...fault }),
})

export const hasParameter = ({ query }: Asked, name: RegExp): boolean => query.some(([key]) => name.test(key))
export const prefers = ({ headers }: Asked, text: RegExp): boolean => text.test(headers.Prefer ?? '')
