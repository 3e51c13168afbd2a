/** Type of a rule about differences from PostgREST 12.0.2, and helpers for rules. */
import type { Answer } from '../../../../testing/client.ts'
import type { SentRequest } from '../request.ts'

type Facts = { readonly sent: SentRequest; readonly theirs: Answer }

export type Rule = {
  /** The service's behaviour. */
  readonly rule: string
  /** Sources: PostgREST's release notes with the number of the change, the contract, or our documentation. */
  readonly source: readonly string[]
  /** The equivalent request for 12.0.2; undefined if it is the same. */
  readonly rewrite?: (sent: SentRequest) => SentRequest | undefined
  /** The service's allowed responses if PostgREST's is `theirs`; empty if the rule does not apply. */
  readonly answers?: (facts: Facts) => readonly Answer[]
  /**
   * The common parts that both responses must have, if the rest is random or up to a planner; undefined if the rule
   * does not apply.
   */
  readonly reduces?: (answer: Answer) => Answer | undefined
  /** Requests whose PostgREST response the service may return instead. */
  readonly instead?: (facts: Facts & { readonly ours: Answer }) => Iterable<SentRequest>
}

export type Fault = {
  readonly code: string
  readonly message: string
  readonly details: unknown
  readonly hint: unknown
}

/** An error's texts, its code with the service's prefix; undefined if the response is not an error with a code. */
export function faultOf({ status, text }: Answer): Fault | undefined {
  if (status < 300 || !text.startsWith('{"code":')) return undefined
  const { code, message, details, hint }: Record<string, unknown> = JSON.parse(text)
  return { code: String(code).replace(/^PGRST/, 'RST'), message: String(message), details, hint }
}

export const codeOf = ({ text }: Pick<Answer, 'text'>): string => /^\{"code":"(?:PG)?([^"]*)"/.exec(text)?.[1] ?? ''

/** Database errors whose codes blame the server. */
export const ofServer = /^(21|42P17|53400|54|55)/

/** Whether it is a success, or an error whose code is not a fault of the service. */
export const isCoded = (answer: Pick<Answer, 'status' | 'text'>): boolean =>
  answer.status < 300 || answer.text === '' || !/^(RST000)?$/.test(codeOf(answer))

export const isDone = ({ status }: Answer): boolean => status < 300
export const isOfDatabase = (answer: Answer): boolean => /^[0-9A-Z]{5}$/.test(codeOf(answer))

/** The response with these additional headers; undefined removes one. */
export function withHeaders(answer: Answer, more: Readonly<Record<string, string | undefined>>): Answer {
  const headers = Object.entries({ ...answer.headers, ...more }).filter(([, text]) => text !== undefined)
  return { ...answer, headers: Object.fromEntries(headers) }
}

/** The error with another text, and with another status if given. */
export function withFault(answer: Answer, more: Partial<Fault>, status = answer.status): Answer {
  const plain = { code: '', message: '', details: null, hint: null }
  return { ...answer, status, text: JSON.stringify({ ...plain, ...faultOf(answer), ...more }) }
}

/** An error instead of any response. */
export const refused = (status: number, fault: Partial<Fault>): Answer => ({
  status,
  statusText: '',
  headers: { 'content-type': 'application/json; charset=utf-8' },
  text: JSON.stringify({ code: '', message: '', details: null, hint: null, ...fault }),
})

export const hasParameter = ({ query }: SentRequest, name: RegExp): boolean => query.some(([key]) => name.test(key))
export const prefers = ({ headers }: SentRequest, text: RegExp): boolean => text.test(headers.Prefer ?? '')
