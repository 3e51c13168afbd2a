import { expect, test } from 'vitest'
import { answerDeadline } from './deadline.ts'
import { type Ended, streamAnswer } from './stream.ts'

test('an answer that nobody writes, since its client is gone, ends all the same', async () => {
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
  client.abort(new Error('the client is gone'))
  deadline.end()
  await new Promise(resolve => setImmediate(resolve))
  expect([ends, isOpen]).toEqual([[{ error: new Error('the client is gone') }], false])
})
