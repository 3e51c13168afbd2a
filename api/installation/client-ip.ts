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
      summary: 'Read the address that you come from',
      description:
        'A help for filling in an allowlist. It is the address that the request arrived with; forwarding headers change it, so rely on it for nothing else.',
      success: { status: 200, description: 'The address.', shape: clientAddressShape },
      errors: [400],
    },
    { querystring: z.strictObject({}) },
  )
  app.get('/client-ip', { schema }, async (request, reply) => {
    const address = claimedAddress(request.headers['x-forwarded-for'], request.socket.remoteAddress ?? '')
    return sendJson(reply, JSON.stringify({ ip_address: address }))
  })
}
