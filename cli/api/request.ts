/** Sends an HTTP request, and returns the complete response as text. */
import type { IncomingMessage } from 'node:http'
import type { RequestOptions } from 'node:https'

type Request = {
  method?: string | undefined
  headers?: Readonly<Record<string, string>>
  /** Sent as JSON. */
  body?: unknown
  /** The CAs that verify the server's certificate, in PEM. Default: the public CAs. */
  authority?: string | undefined
  /** The name in the certificate, if it is not the URL's host. */
  name?: string | undefined
  /** How long the complete response may take. */
  timeoutMs?: number | undefined
}
export type Answer = { status: number; text: string; etag?: string | undefined }

/** The response timeout: the longest `Prefer: wait`, plus a margin. */
const defaultTimeoutMs = 75_000
/** The maximum size of a response. A page of 1000 databases has about a tenth of this. */
const highestBytes = 16 * 1024 * 1024

function optionsOf({ method = 'GET', headers, authority, name }: Request, signal: AbortSignal): RequestOptions {
  return {
    method,
    signal,
    headers: { ...(name === undefined ? {} : { host: name }), ...headers },
    ...(authority === undefined ? {} : { ca: authority }),
    ...(name === undefined ? {} : { servername: name }),
  }
}

// An import of node:http or node:https would also load fetch and HTTP/2. Commands would then start more slowly.
const clientFor = ({ protocol }: URL) =>
  process.getBuiltinModule(protocol === 'https:' ? 'node:https' : 'node:http').request

/** @throws Error if no complete response arrives */
export async function send(url: URL, request: Request): Promise<Answer> {
  const { headers, body, timeoutMs = defaultTimeoutMs } = request
  const text = body === undefined ? undefined : JSON.stringify(body)
  const ofBody: Record<string, string> =
    text === undefined ? {} : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(text)) }
  const late = AbortSignal.timeout(timeoutMs)
  const options = optionsOf({ ...request, headers: { ...ofBody, ...headers } }, late)
  return await new Promise<Answer>((resolve, reject) => {
    const failed = (error: Error) =>
      reject(late.aborted ? new Error(`no complete response within ${timeoutMs / 1000} s`) : error)
    const sent = clientFor(url)(url, options, answer => {
      let received = ''
      answer.setEncoding('utf8').on('error', failed)
      answer.on('data', (part: string) => {
        received += part
        if (received.length > highestBytes) sent.destroy(new Error('the response is too long'))
      })
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text: received, etag: answer.headers.etag }))
    })
    sent.on('error', failed)
    sent.end(text)
  })
}

/**
 * Yields the response's text as it arrives.
 * @throws Error if the status is not 200, if no data arrives for `silentMs`, or if the connection breaks
 */
export async function* stream(
  url: URL,
  request: Request,
  { signal, silentMs }: { signal: AbortSignal; silentMs: number },
): AsyncGenerator<string, void, void> {
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    const sent = clientFor(url)(url, optionsOf(request, signal), resolve)
    sent.on('error', reject)
    sent.setTimeout(silentMs, () => sent.destroy(new Error('the stream is silent')))
    sent.end()
  })
  if (answer.statusCode !== 200) {
    answer.destroy()
    throw new Error(`the API returned ${answer.statusCode}`)
  }
  for await (const part of answer.setEncoding('utf8')) yield String(part)
}

/** Returns the reason why `send` failed. */
export const whyOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  // If a host has several addresses, the error has one inner error per address and an empty message.
  if (error instanceof AggregateError && error.message === '') return whyOf(error.errors[0])
  return error.message
}
