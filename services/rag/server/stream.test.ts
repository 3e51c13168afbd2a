import { expect, test } from 'vitest'
import { answerDeadline } from './deadline.ts'
import { type Ended, streamAnswer } from './stream.ts'

test('an answer that is never written because its client has disconnected ends', async () => {
  const client = new AbortController()
  const deadline = answerDeadline(client.signal, 60_000, 0)
  let isOpen = true
  async function* texts(): AsyncGenerator<string, { readonly tokensUsed: number }> {
    try {
      yield 'a'
      yield 'b'
      return { tokensUsed: 1 }
    } finally {
      isOpen = false
    }
  }
  const ends: Ended[] = []
  await streamAnswer(texts(), deadline, ended => ends.push(ended))
  client.abort(new Error('the client has disconnected'))
  deadline.end()
  await new Promise(resolve => setImmediate(resolve))
  expect([ends, isOpen]).toEqual([[{ error: new Error('the client has disconnected') }], false])
})
