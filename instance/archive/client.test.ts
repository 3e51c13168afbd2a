/** Which errors of the archive are retried. */
import { expect, test } from 'vitest'
import { patiently } from './client.ts'
import { ArchiveFault } from './transport.ts'

const never = new AbortController().signal

test.each([
  ['other content under the name', new ArchiveFault('conflict', 'x', 409)],
  ['an incomplete backup', new ArchiveFault('incomplete', 'x', 409)],
  ['content that is too large', new ArchiveFault('bad_request', 'x', 413)],
])('%s ends the attempts', async (_, fault) => {
  const seen: unknown[] = []
  const work = async () => {
    throw fault
  }
  await expect(patiently(work, { signal: never, failed: error => seen.push(error) })).rejects.toBe(fault)
  expect(seen).toEqual([fault])
})

test.each([
  ['a busy archive', new ArchiveFault('busy', 'x', 503)],
  ['a lost connection', new Error('ECONNRESET')],
])('%s is retried until it succeeds', async (_, fault) => {
  let attempts = 0
  const work = async () => {
    attempts++
    if (attempts < 3) throw fault
    return attempts
  }
  expect(await patiently(work, { signal: never, failed: () => {} })).toBe(3)
})
