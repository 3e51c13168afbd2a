import { expect, test } from 'vitest'
import { answered } from './rounds.ts'

test('a call that requests input more than 8 times fails, and the client receives only the first 8 requests', async () => {
  let sent = 0
  const result = answered({
    call: async () => ({ kind: 'input-required', requests: { roots: { method: 'roots/list', params: {} } } }),
    inputKinds: new Set(['roots']),
    sendToClient: async () => {
      sent++
      return { roots: [] }
    },
  })
  await expect(result).rejects.toMatchObject({
    fault: { kind: 'no answer', problem: 'the call requested input more than 8 times' },
  })
  expect(sent).toBe(8)
})
