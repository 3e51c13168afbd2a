/**
 * The state of a call that requests input. The client receives the sealed state, and returns it with the answers. No
 * client can read or change the state. Any process with the same key can open it. A process accepts a state once,
 * within ten minutes, and only from the same caller for the same method and parameters.
 */
import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto'
import type { JsonObject } from '../../mcp-protocol/json.ts'
import { CoreError } from '../core/errors.ts'
import { createUsed } from '../core/used.ts'
import { canonical } from './canonical.ts'

/** The call to which a sealed state belongs. */
type Binding = { readonly principal: string; readonly method: string; readonly params: JsonObject }

export type Sealer = {
  seal(state: JsonObject | undefined, binding: Binding): string
  /** @throws CoreError, with the same message for every cause */
  open(sealed: string, binding: Binding): JsonObject | undefined
}

const lifetimeMs = 600_000
const maximumLength = 65_536
const version = 'v1.'
const nonceBytes = 12
const tagBytes = 16

const refused = () =>
  new CoreError({
    kind: 'invalid params',
    problem: 'requestState: is invalid, belongs to another request, was used, or has expired',
  })

/** The hash of the caller, the method, and the parameters that the client must repeat unchanged. */
function boundData({ principal, method, params }: Binding): Buffer {
  const { _meta, inputResponses, requestState, ...call } = params
  return createHash('sha256')
    .update(canonical([principal, method, call]))
    .digest()
}

/** `key` must have at least 32 bytes. */
export function createSealer(key: Uint8Array, now: () => number): Sealer {
  if (key.length < 32) throw new RangeError('the sealing key must have at least 32 bytes')
  const derived = Buffer.from(hkdfSync('sha256', key, '', 'espalier mcp requestState', 32))
  const used = createUsed(lifetimeMs, now)

  function decrypt(sealed: string, binding: Binding): { readonly payload: Buffer; readonly nonce: string } | undefined {
    if (!sealed.startsWith(version) || sealed.length > maximumLength) return undefined
    const text = sealed.slice(version.length)
    const bytes = Buffer.from(text, 'base64url')
    // Node accepts several Base64 texts for the same bytes. The server accepts only the text that it writes itself.
    if (bytes.length < nonceBytes + tagBytes || bytes.toString('base64url') !== text) return undefined
    const nonce = bytes.subarray(0, nonceBytes)
    const decipher = createDecipheriv('aes-256-gcm', derived, nonce, { authTagLength: tagBytes })
    decipher.setAAD(boundData(binding))
    decipher.setAuthTag(bytes.subarray(-tagBytes))
    try {
      const payload = Buffer.concat([decipher.update(bytes.subarray(nonceBytes, -tagBytes)), decipher.final()])
      return { payload, nonce: nonce.toString('base64') }
    } catch {
      return undefined
    }
  }

  return {
    seal(state, binding) {
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv('aes-256-gcm', derived, nonce, { authTagLength: tagBytes })
      cipher.setAAD(boundData(binding))
      const payload = JSON.stringify({ expires: now() + lifetimeMs, state })
      const bytes = Buffer.concat([nonce, cipher.update(payload, 'utf8'), cipher.final(), cipher.getAuthTag()])
      const sealed = version + bytes.toString('base64url')
      if (sealed.length > maximumLength)
        throw new RangeError(`the sealed state must have at most ${maximumLength} characters`)
      return sealed
    },
    open(sealed, binding) {
      const opened = decrypt(sealed, binding)
      if (opened === undefined || used.has(opened.nonce)) throw refused()
      // A process with this key wrote the JSON.
      const { expires, state } = JSON.parse(opened.payload.toString()) as { expires: number; state?: JsonObject }
      if (expires <= now()) throw refused()
      used.add(opened.nonce)
      return state
    },
  }
}
