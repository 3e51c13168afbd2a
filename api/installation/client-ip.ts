/** `/client-ip`: the address a request says it came from, for filling in an allowlist entry; never for enforcement. */
import { z } from 'zod'
import { sendJson } from '../answers.ts'
import { clientAddressShape } from '../catalogue/schema.ts'
import type { App } from '../context.ts'
import { claimedAddress } from '../headers.ts'
import { operation } from '../operation.ts'

export function addClientAddress(app: App): void {
  const schema = operation(
    {
      operationId: 'getClientIp',
      tag: 'caller',
      summary: "The caller's address",
      description: 'As the request arrived with it: forwarding headers change it, so it is not authoritative.',
      success: { status: 200, description: 'The address', shape: clientAddressShape },
    },
    { querystring: z.strictObject({}) },
  )
  app.get('/client-ip', { schema }, async (request, reply) => {
    const address = claimedAddress(request.headers['x-forwarded-for'], request.socket.remoteAddress ?? '')
    return sendJson(reply, JSON.stringify({ ip_address: address }))
  })
}
