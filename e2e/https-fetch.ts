/**
 * `fetch` for services behind the gateway. It trusts the installation's authority. It connects to one address for every
 * host name, since names in a test's domain do not resolve.
 */
import { request } from 'node:https'
import { Readable } from 'node:stream'

export type Fetch = typeof globalThis.fetch

export function httpsFetch({ authority, address }: { authority: string; address: string }): Fetch {
  return async (input, init) => {
    const fetched = new Request(input, init)
    const { hostname, port, pathname, search } = new URL(fetched.url)
    const body = fetched.body === null ? undefined : Buffer.from(await fetched.arrayBuffer())
    return await new Promise<Response>((resolve, reject) => {
      const sent = request(
        {
          ...{ host: address, port, path: `${pathname}${search}`, method: fetched.method, ca: authority },
          servername: /^[0-9.]+$/.test(hostname) ? '' : hostname,
          headers: { ...Object.fromEntries(fetched.headers), host: new URL(fetched.url).host },
          // After a Request is garbage-collected, it no longer follows the caller's signal. This can happen before a
          // stream ends.
          signal: init?.signal ?? fetched.signal,
        },
        answer => {
          const status = answer.statusCode ?? 0
          const headers = new Headers()
          for (let index = 0; index < answer.rawHeaders.length; index += 2)
            headers.append(answer.rawHeaders[index] ?? '', answer.rawHeaders[index + 1] ?? '')
          const isEmpty = status === 204 || status === 304
          // The types of Node's and the DOM's streams differ only in name.
          const stream = Readable.toWeb(answer) as ReadableStream
          resolve(new Response(isEmpty ? null : stream, { status, headers }))
        },
      )
      sent.on('error', reject)
      sent.end(body)
    })
  }
}
