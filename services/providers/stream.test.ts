import { afterEach, expect, test, vi } from 'vitest'
import { bearer, endpointOf } from './endpoint.ts'
import { type StreamFormat, streamPieces } from './stream.ts'

afterEach(() => vi.unstubAllGlobals())

/** The pieces of an answer that comes in parts of so many bytes. */
async function read(text: string, bytes: number, format: StreamFormat = 'events'): Promise<unknown[]> {
  const all = Buffer.from(text)
  let at = 0
  const body = new ReadableStream({
    pull(controller) {
      if (at >= all.length) {
        controller.close()
        return
      }
      controller.enqueue(all.subarray(at, at + bytes))
      at += bytes
    },
  })
  vi.stubGlobal('fetch', async () => new Response(body))
  const endpoint = endpointOf(
    { provider: 'test', defaultBaseUrl: 'http://127.0.0.1:1', keyHeaders: bearer },
    { apiKey: undefined, baseUrl: undefined, timeoutMs: 60_000 },
  )
  const question = { path: '/', format, maximumBytes: 16_777_216 }
  const pieces: unknown[] = []
  for await (const piece of streamPieces(endpoint, question, new AbortController().signal)) pieces.push(piece)
  return pieces
}

test.each([1, 2, 3, 7, 1_000])('reads lines that come in parts of %i bytes', async bytes => {
  const events = 'event: a\r\ndata: {"a": "ä"}\r\n\r\n: comment\n\ndata:{"b":1}\n\ndata: [DONE]\n\ndata: {"c":2}'
  expect(await read(events, bytes)).toEqual([{ a: 'ä' }, { b: 1 }, { c: 2 }])
  expect(await read('{"a":1}\n\n{"b":"😀"}\n', bytes, 'lines')).toEqual([{ a: 1 }, { b: '😀' }])
})

test('takes time by the length of a line, not by its square', async () => {
  const began = performance.now()
  expect(await read(`data: {"a": "${'x'.repeat(8_000_000)}"}\n`, 1_000)).toHaveLength(1)
  expect(performance.now() - began).toBeLessThan(3_000)
})
