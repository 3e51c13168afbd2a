/**
 * `/client-ip`: the address that a request claims. It helps users to fill in an allowlist entry, and must never be used
 * for enforcement.
 */
import { z } from 'zod'
import { sendJson } from '../answers.ts'
import { clientAddressShape } from '../catalogue/schema.ts'
import type { App } from '../context.ts'
import { unverifiedAddress } from '../headers.ts'
import { operation } from '../operation.ts'

export function addClientAddress(app: App): void {
  const schema = operation(
    {
      operationId: 'getClientIp',
      tag: 'caller',
      summary: 'Read your own address',
      description:
        'Helps to fill in an allowlist entry. Returns the address that the request arrived with. Forwarding headers can change it, so do not rely on it for anything else.',
      success: { status: 200, description: 'The address.', shape: clientAddressShape },
      errors: [400],
    },
    { querystring: z.strictObject({}) },
  )
  app.get('/client-ip', { schema }, async (request, reply) => {
    const address = unverifiedAddress(request.headers['x-forwarded-for'], request.socket.remoteAddress ?? '')
    return sendJson(reply, JSON.stringify({ ip_address: address }))
  })
}
