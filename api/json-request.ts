/** Sends one GET for a JSON response, limited in size and time. */
import type { RequestOptions as HttpOptions, IncomingMessage } from 'node:http'
import { request as httpsRequest, type RequestOptions } from 'node:https'
import { request as httpRequest } from '../server/node-http.ts'

type GetOptions = RequestOptions & HttpOptions & { secure: boolean; mostBytes: number; timeoutMs: number }

async function textOf(response: IncomingMessage, mostBytes: number): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > mostBytes) throw new Error(`the response has more than ${mostBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** @throws if there is no response, or if the response does not have status 200 and JSON */
export async function getJson({ secure, mostBytes, timeoutMs, ...options }: GetOptions): Promise<unknown> {
  const signal = AbortSignal.timeout(timeoutMs)
  const requestOptions = {
    ...options,
    agent: false,
    signal,
    headers: { accept: 'application/json', ...options.headers },
  }
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const request = secure ? httpsRequest(requestOptions) : httpRequest(requestOptions)
  request.once('response', resolve)
  request.on('error', reject)
  // After `101 Switching Protocols`, Node closes the connection and emits neither a response nor an error.
  request.once('close', () => reject(new Error('the connection was closed without a response')))
  request.end()
  try {
    const response = await promise
    const text = await textOf(response, mostBytes)
    const { statusCode: status } = response
    if (status !== 200) throw new Error(`the response has status ${status}: ${text.slice(0, 200).trim()}`)
    return JSON.parse(text)
  } finally {
    request.destroy()
  }
}
