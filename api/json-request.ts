/** One GET whose answer is JSON of a bounded size, within a bounded time. */
import type { RequestOptions as HttpOptions, IncomingMessage } from 'node:http'
import { request as httpsRequest, type RequestOptions } from 'node:https'
import { request as httpRequest } from '../server/node-http.ts'

type GetOptions = RequestOptions & HttpOptions & { secure: boolean; mostBytes: number; timeoutMs: number }

async function textOf(response: IncomingMessage, mostBytes: number): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > mostBytes) throw new Error(`the answer has more than ${mostBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** @throws where nobody answers, or otherwise than with 200 and JSON */
export async function getJson({ secure, mostBytes, timeoutMs, ...options }: GetOptions): Promise<unknown> {
  const signal = AbortSignal.timeout(timeoutMs)
  const asked = { ...options, agent: false, signal, headers: { accept: 'application/json', ...options.headers } }
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const request = secure ? httpsRequest(asked) : httpRequest(asked)
  request.once('response', resolve)
  request.on('error', reject)
  request.end()
  try {
    const response = await promise
    const text = await textOf(response, mostBytes)
    const { statusCode: status } = response
    if (status !== 200) throw new Error(`the answer has status ${status}: ${text.slice(0, 200).trim()}`)
    return JSON.parse(text)
  } finally {
    request.destroy()
  }
}
