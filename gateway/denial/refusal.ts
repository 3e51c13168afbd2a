/**
 * The errors for refused clients, in Postgres's format: an ErrorResponse (Postgres manual, "Message Formats" and "Error
 * and Notice Message Fields") with an SQLSTATE that drivers know.
 */

export type Refusal = {
  /** invalid_authorization_specification, too_many_connections, cannot_connect_now */
  code: '28000' | '53300' | '57P03'
  message: string
  hint?: string
}

export const notAdmitted = (label: string, address: string): Refusal => ({
  code: '28000',
  message: `no rule of the allowlist of ${label} admits ${address}`,
  hint: 'Add a rule that covers this address to the allowlist, or connect from an address that a rule covers.',
})

export const tooMany = (label: string): Refusal => ({ code: '53300', message: `too many connections to ${label}` })

/** Too many connections of the address have not logged in, or this connection waited too long in the queue. */
export const tooManyLogins = (label: string, address: string): Refusal => ({
  code: '53300',
  message: `too many connections to ${label} from ${address} that have not logged in`,
  hint: 'Connections that do not log in are closed after 10 seconds. Open fewer at once, or keep connections that have logged in.',
})

/** Sent in plain text to a client whose permissions are unknown, so it names neither the database nor the address. */
export const tooManyRefusals: Refusal = {
  code: '53300',
  message: 'too many connections are being refused now',
  hint: 'Retry in a few seconds. A client that connects more slowly gets the reason of its refusal.',
}

export const notAvailable: Refusal = {
  code: '57P03',
  message: 'the database is not available now',
  hint: 'It may be starting, suspended or being changed: see its status.',
}

/** The gateway does not know whether its rules are current. */
export const outOfTouch: Refusal = {
  code: '57P03',
  message: 'new connections are refused: the gateway cannot reach its control plane',
}

/** The ErrorResponse message, severity FATAL. */
export function encodeRefusal({ code, message, hint }: Refusal): Buffer {
  const field = (type: string, text: string): string => `${type}${text.replaceAll('\0', ' ')}\0`
  const fields = [
    field('S', 'FATAL'),
    field('V', 'FATAL'),
    field('C', code),
    field('M', message),
    ...(hint === undefined ? [] : [field('H', hint)]),
  ]
  const body = Buffer.from(`${fields.join('')}\0`, 'utf8')
  const head = Buffer.alloc(5)
  head.write('E', 0)
  head.writeUInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}
