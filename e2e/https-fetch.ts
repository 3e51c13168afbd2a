/**
 * `fetch` for services behind the gateway: it trusts the installation's authority, and connects to one address whatever
 * the host name is, since names below a test's domain do not resolve.
 */
import { request } from 'node:https'
import { Readable } from 'node:stream'

export type Fetch = typeof globalThis.fetch

export function httpsFetch({ authority, address }: { authority: string; address: string }): Fetch {
  return async (input, init) => {
    const asked = new Request(input, init)
    const { hostname, port, pathname, search } = new URL(asked.url)
    const body = asked.body === null ? undefined : Buffer.from(await asked.arrayBuffer())
    return await new Promise<Response>((resolve, reject) => {
      const sent = request(
        {
          ...{ host: address, port, path: `${pathname}${search}`, method: asked.method, ca: authority },
          servername: /^[0-9.]+$/.test(hostname) ? '' : hostname,
          headers: { ...Object.fromEntries(asked.headers), host: new URL(asked.url).host },
          signal: asked.signal,
        },
        answer => {
          const status = answer.statusCode ?? 0
          const headers = new Headers()
          for (let index = 0; index < answer.rawHeaders.length; index += 2)
            headers.append(answer.rawHeaders[index] ?? '', answer.rawHeaders[index + 1] ?? '')
          const isEmpty = status === 204 || status === 304
          // The types of Node's and the DOM's streams differ in name alone.
          const stream = Readable.toWeb(answer) as ReadableStream
          resolve(new Response(isEmpty ? null : stream, { status, headers }))
        },
      )
      sent.on('error', reject)
      sent.end(body)
    })
  }
}
