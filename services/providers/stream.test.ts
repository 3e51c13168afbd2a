import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { bearer, endpointOf } from './endpoint.ts'
import { type StreamFormat, streamPieces } from './stream.ts'

const answer = { parts: [] as readonly Buffer[] }
/** Sends one chunk for each part, so that the client receives the parts separately even if several arrive at once. */
const server = createServer((_, response) => {
  for (const part of answer.parts) response.write(part)
  response.end()
})
beforeAll(() => new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve)))
afterAll(() => server.close())

/** Reads a response that the server sends in parts of this many bytes, and returns its pieces. */
async function read(text: string, bytes: number, format: StreamFormat = 'events'): Promise<unknown[]> {
  const all = Buffer.from(text)
  const count = Math.ceil(all.length / bytes)
  answer.parts = Array.from({ length: count }, (_, index) => all.subarray(index * bytes, (index + 1) * bytes))
  const defaultBaseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}` // The server listens on a port.
  const endpoint = endpointOf(
    { provider: 'test', defaultBaseUrl, keyHeaders: bearer },
    { apiKey: undefined, baseUrl: undefined, timeoutMs: 60_000 },
  )
  const question = { path: '/', format, maximumBytes: 16_777_216 }
  const pieces: unknown[] = []
  for await (const piece of streamPieces(endpoint, question, new AbortController().signal)) pieces.push(piece)
  return pieces
}

test.each([1, 2, 3, 7, 1_000])('reads lines split into parts of %i bytes', async bytes => {
  const events = 'event: a\r\ndata: {"a": "ä"}\r\n\r\n: comment\n\ndata:{"b":1}\n\ndata: [DONE]\n\ndata: {"c":2}'
  expect(await read(events, bytes)).toEqual([{ a: 'ä' }, { b: 1 }, { c: 2 }])
  expect(await read('{"a":1}\n\n{"b":"😀"}\n', bytes, 'lines')).toEqual([{ a: 1 }, { b: '😀' }])
})

test('takes linear time in the length of a line', async () => {
  const began = performance.now()
  expect(await read(`data: {"a": "${'x'.repeat(8_000_000)}"}\n`, 1_000)).toHaveLength(1)
  expect(performance.now() - began).toBeLessThan(3_000)
})
