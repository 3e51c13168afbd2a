/** One HTTP request of a command, and its whole answer as text. */
import http from 'node:http'
import https from 'node:https'

type Request = {
  method?: string | undefined
  headers?: Readonly<Record<string, string>>
  /** Sent as JSON. */
  body?: unknown
  /** The authorities that the server's certificate is verified with, in PEM; absent: the public ones. */
  authority?: string | undefined
  /** What the certificate is issued for, where that is not the host of the URL. */
  name?: string | undefined
}
export type Answer = { status: number; text: string }

/** The longest an answer may take: the longest `Prefer: wait`, and some. */
const patienceMs = 75_000
/** A page of a thousand databases is a tenth of this. */
const highestBytes = 16 * 1024 * 1024

/** @throws Error where no whole answer arrives */
export async function send(url: URL, { method = 'GET', headers, body, authority, name }: Request): Promise<Answer> {
  const text = body === undefined ? undefined : JSON.stringify(body)
  const options: https.RequestOptions = {
    method,
    signal: AbortSignal.timeout(patienceMs),
    headers: {
      ...(text === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
      ...(name === undefined ? {} : { host: name }),
      ...headers,
    },
    ...(authority === undefined ? {} : { ca: authority }),
    ...(name === undefined ? {} : { servername: name }),
  }
  const { request } = url.protocol === 'https:' ? https : http
  return await new Promise<Answer>((resolve, reject) => {
    const sent = request(url, options, answer => {
      let received = ''
      answer.setEncoding('utf8').on('error', reject)
      answer.on('data', (part: string) => {
        received += part
        if (received.length > highestBytes) sent.destroy(new Error('its answer is too long'))
      })
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text: received }))
    })
    sent.on('error', reject)
    sent.end(text)
  })
}

/** Why `send` has failed. */
export const whyOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  // A host with several addresses fails with one error for each, and no words of its own.
  if (error instanceof AggregateError && error.message === '') return whyOf(error.errors[0])
  return error.name === 'AbortError' ? `no answer in ${patienceMs / 1000} s` : error.message
}
