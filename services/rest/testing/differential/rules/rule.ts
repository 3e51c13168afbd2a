/** The type of a rule about differences from PostgREST 12.0.2, and helpers for rules. */
import type { Answer } from '../../../../testing/client.ts'
import type { SentRequest } from '../request.ts'

type Facts = { readonly sent: SentRequest; readonly theirs: Answer }

export type Rule = {
  /** The service's behaviour. */
  readonly rule: string
  /** Sources: PostgREST's release notes with the change's number, the contract, or our documentation. */
  readonly source: readonly string[]
  /** The equivalent request for 12.0.2. Undefined if it is the same request. */
  readonly rewrite?: (sent: SentRequest) => SentRequest | undefined
  /**
   * The responses that the service may return if PostgREST's response is `theirs`. Empty if the rule does not apply.
   */
  readonly answers?: (facts: Facts) => readonly Answer[]
  /**
   * The parts that both responses must share, if the rest is random or depends on a planner. Undefined if the rule does
   * not apply.
   */
  readonly reduces?: (answer: Answer) => Answer | undefined
  /** The service may return PostgREST's response to one of these requests instead. */
  readonly instead?: (facts: Facts & { readonly ours: Answer }) => Iterable<SentRequest>
}

export type Fault = {
  readonly code: string
  readonly message: string
  readonly details: unknown
  readonly hint: unknown
}

/** An error's texts; its code has the service's prefix. Undefined if the response is not an error with a code. */
export function faultOf({ status, text }: Answer): Fault | undefined {
  if (status < 300 || !text.startsWith('{"code":')) return undefined
  const { code, message, details, hint }: Record<string, unknown> = JSON.parse(text)
  return { code: String(code).replace(/^PGRST/, 'RST'), message: String(message), details, hint }
}

export const codeOf = ({ text }: Pick<Answer, 'text'>): string => /^\{"code":"(?:PG)?([^"]*)"/.exec(text)?.[1] ?? ''

/** Codes of database errors for which the server is responsible. */
export const ofServer = /^(21|42P17|53400|54|55)/

/** Whether the response is a success, or an error whose code is not a fault of the service. */
export const isCoded = (answer: Pick<Answer, 'status' | 'text'>): boolean =>
  answer.status < 300 || answer.text === '' || !/^(RST000)?$/.test(codeOf(answer))

export const isDone = ({ status }: Answer): boolean => status < 300
export const isOfDatabase = (answer: Answer): boolean => /^[0-9A-Z]{5}$/.test(codeOf(answer))

/** The response with these additional headers. Undefined removes a header. */
export function withHeaders(answer: Answer, more: Readonly<Record<string, string | undefined>>): Answer {
  const headers = Object.entries({ ...answer.headers, ...more }).filter(([, text]) => text !== undefined)
  return { ...answer, headers: Object.fromEntries(headers) }
}

/** The error with another text, and with another status if `status` is given. */
export function withFault(answer: Answer, more: Partial<Fault>, status = answer.status): Answer {
  const plain = { code: '', message: '', details: null, hint: null }
  return { ...answer, status, text: JSON.stringify({ ...plain, ...faultOf(answer), ...more }) }
}

/** An error in place of any response. */
export const refused = (status: number, fault: Partial<Fault>): Answer => ({
  status,
  statusText: '',
  headers: { 'content-type': 'application/json; charset=utf-8' },
  text: JSON.stringify({ code: '', message: '', details: null, hint: null, ...fault }),
})

export const hasParameter = ({ query }: SentRequest, name: RegExp): boolean => query.some(([key]) => name.test(key))
export const prefers = ({ headers }: SentRequest, text: RegExp): boolean => text.test(headers.Prefer ?? '')
