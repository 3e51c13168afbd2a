/**
 * Confirmations of irreversible statements. The client asks its user. A confirmation is valid for one statement, one
 * caller, one database and a few minutes, and only once in this process. A confirmation is never an argument that a
 * model could repeat, because text in a result could make the model confirm. If the client cannot ask its user, the
 * statement is refused, unless the database has `allow_unconfirmed`.
 */
import { createHash, createHmac, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import type { CallContext, Outcome } from '../core/call.ts'
import { type ToolResult, toolError } from '../core/tool.ts'
import { createUsed } from '../core/used.ts'

/** The statement to confirm. */
type Subject = {
  readonly statement: string
  readonly database: string
  readonly tool: string
  /** The statement's effect, which continues the sentence "the statement ...". */
  readonly effect: string
  /** Whether the statement runs if the client cannot ask its user. */
  readonly allowUnconfirmed: boolean
}

export type Confirmations = {
  /** Returns undefined if the user has confirmed. Otherwise, returns the outcome of the call. */
  check(subject: Subject, context: CallContext): Outcome<ToolResult> | undefined
}

const lifetimeMs = 300_000
const key = 'confirm'

function questionOf({ statement, database, effect }: Subject): JsonObject {
  const shown = statement.length > 1_000 ? `${statement.slice(0, 1_000).toWellFormed()}…` : statement
  return {
    mode: 'form',
    message: `The statement ${effect}. Run it on the database "${database}"?\n\n${shown}`,
    requestedSchema: {
      type: 'object',
      properties: { [key]: { type: 'boolean', title: 'Run it', description: 'It cannot be undone.', default: false } },
      required: [key],
    },
  }
}

export function createConfirmations(sealingKey: Uint8Array, now: () => number): Confirmations {
  const secret = Buffer.from(hkdfSync('sha256', sealingKey, '', 'espalier mcp: confirmation of statements', 32))
  const spent = createUsed(lifetimeMs, now)

  function sealOf({ statement, database, tool }: Subject, principal: string, expires: string, nonce: string): Buffer {
    const digest = createHash('sha256').update(statement).digest('base64url')
    return createHmac('sha256', secret)
      .update(JSON.stringify([digest, principal, database, tool, expires, nonce]))
      .digest()
      .subarray(0, 18)
  }

  function codeFor(subject: Subject, { caller }: CallContext): string {
    const expires = (now() + lifetimeMs).toString(36)
    const nonce = randomBytes(9).toString('base64url')
    return `${expires}.${nonce}.${sealOf(subject, caller.principal, expires, nonce).toString('base64url')}`
  }

  /** Returns true once per confirmation. */
  function redeem(code: string, subject: Subject, { caller }: CallContext): boolean {
    const [, expires = '', nonce = '', seal = ''] = /^([0-9a-z]{1,12})\.([\w-]{12})\.([\w-]{24})$/.exec(code) ?? []
    const received = Buffer.from(seal, 'base64url')
    const wanted = sealOf(subject, caller.principal, expires, nonce)
    if (received.length !== wanted.length || !timingSafeEqual(received, wanted)) return false
    if (Number.parseInt(expires, 36) < now() || spent.has(nonce)) return false
    spent.add(nonce)
    return true
  }

  function answered(subject: Subject, context: CallContext): Outcome<ToolResult> | undefined {
    const { responses, state } = context.answers ?? { responses: {}, state: undefined }
    const answer = responses[key]
    if (answer === undefined) return requestConfirmation(subject, context)
    const content = answer.content
    const isAccepted =
      answer.action === 'accept' &&
      typeof content === 'object' &&
      content !== null &&
      key in content &&
      content[key] === true
    if (!isAccepted) return toolError('Not confirmed: nothing was run.')
    const code = state?.code
    if (typeof code === 'string' && redeem(code, subject, context)) return undefined
    return toolError('The confirmation belongs to another statement, was used, or has expired: nothing was run.')
  }

  function requestConfirmation(subject: Subject, context: CallContext): Outcome<ToolResult> | undefined {
    if (context.inputKinds.has('elicitation-form')) {
      const requests = { [key]: { method: 'elicitation/create', params: questionOf(subject) } } as const
      return { kind: 'input-required', requests, state: { code: codeFor(subject, context) } }
    }
    if (subject.allowUnconfirmed) return undefined
    return toolError(
      `Refused: the statement ${subject.effect}, and this client cannot ask its user (MCP elicitation). Nothing was run. Tell the user: they can run the statement themselves, use a client with elicitation, or set allow_unconfirmed: true in the configuration of the database "${subject.database}".`,
    )
  }

  return {
    check: (subject, context) =>
      context.answers === undefined ? requestConfirmation(subject, context) : answered(subject, context),
  }
}
