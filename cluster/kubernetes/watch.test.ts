/** Watches on the wire: chunks split anywhere, errors in the stream, closed and silent connections. */
import { describe, expect, test } from 'vitest'
import type { Cluster, WatchEvent } from '../index.ts'
import { collect, refusal } from '../testing/conformance/suite.ts'
import { type Handler, startScriptedServer, statusBody } from '../testing/scripted-server.ts'

const configMap = (name: string, text = 'Grüße, 世界 🐘') => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { namespace: 'default', name, resourceVersion: '7' },
  data: { text },
})
const added = (name: string): string => `${JSON.stringify({ type: 'ADDED', object: configMap(name) })}\n`
const errorEvent = (status: string): string => `{"type":"ERROR","object":${status}}\n`

/** All events until the watch ends. */
async function readAll(cluster: Cluster): Promise<WatchEvent<object>[]> {
  const { signal } = new AbortController()
  const events: WatchEvent<object>[] = []
  for await (const event of cluster.watch('ConfigMap', { resourceVersion: '1', signal })) events.push(event)
  return events
}

describe('the stream', () => {
  test('can be split anywhere, also within a character', async () => {
    const server = await startScriptedServer((_request, response) => {
      const bytes = Buffer.from(added('one') + added('two'))
      response.writeHead(200)
      let at = 0
      const next = (): void => {
        if (at >= bytes.length) return void response.end()
        response.write(bytes.subarray(at, at + 1))
        at += 1
        setImmediate(next)
      }
      next()
    })
    expect(await readAll(await server.connect())).toEqual([
      { type: 'ADDED', object: configMap('one') },
      { type: 'ADDED', object: configMap('two') },
    ])
  })

  test('can contain many events in one chunk, also bookmarks', async () => {
    const bookmark = '{"type":"BOOKMARK","object":{"kind":"ConfigMap","metadata":{"resourceVersion":"9"}}}\n'
    const server = await startScriptedServer((_request, response) =>
      response.end(added('one') + bookmark + added('two')),
    )
    expect((await readAll(await server.connect())).map(({ type }) => type)).toEqual(['ADDED', 'BOOKMARK', 'ADDED'])
  })

  test('is requested with bookmarks, a version, a selector and a timeout', async () => {
    let url = ''
    const server = await startScriptedServer((request, response) => {
      url = request.url ?? ''
      response.end()
    })
    const cluster = await server.connect({ limits: { watchSeconds: 100 } })
    const { signal } = new AbortController()
    const labels = { 'espalier.dev/component': 'route', tier: true as const }
    const watch = cluster.watch('ConfigMap', { namespace: 'system', labels, resourceVersion: '42', signal })
    for await (const _event of watch) break
    const { pathname, searchParams } = new URL(url, 'http://x')
    expect(pathname).toBe('/api/v1/namespaces/system/configmaps')
    const { timeoutSeconds, ...rest } = Object.fromEntries(searchParams)
    expect(rest).toEqual({
      watch: 'true',
      allowWatchBookmarks: 'true',
      resourceVersion: '42',
      labelSelector: 'espalier.dev/component=route,tier',
    })
    expect(Number(timeoutSeconds)).toBeGreaterThanOrEqual(100)
    expect(Number(timeoutSeconds)).toBeLessThanOrEqual(200)
  })
})

describe('errors', () => {
  test('410, as a response and as an event, is Expired', async () => {
    const status = statusBody(410, 'Expired', 'too old resource version: 1 (9)')
    const answered = await startScriptedServer((_request, response) => response.writeHead(410).end(status))
    await refusal(readAll(await answered.connect()), 'Expired')
    const expired = await startScriptedServer((_request, response) =>
      response.end(errorEvent(statusBody(410, 'Gone', 'too old'))),
    )
    await refusal(readAll(await expired.connect()), 'Expired')
    const streamed = await startScriptedServer((_request, response) => response.end(added('one') + errorEvent(status)))
    const seen: string[] = []
    const cluster = await streamed.connect()
    const { signal } = new AbortController()
    const read = async (): Promise<void> => {
      for await (const event of cluster.watch('ConfigMap', { resourceVersion: '1', signal })) seen.push(event.type)
    }
    expect((await refusal(read(), 'Expired')).message).toContain('too old resource version')
    expect(seen).toEqual(['ADDED'])
  })

  test('another error in the stream keeps its reason', async () => {
    const server = await startScriptedServer((_request, response) =>
      response.end(errorEvent(statusBody(500, 'InternalError', 'etcd event received with PrevKv=nil'))),
    )
    expect((await refusal(readAll(await server.connect()), 'Unavailable')).message).toContain('PrevKv')
    const odd = await startScriptedServer((_request, response) => response.end(errorEvent('{"surprise":true}')))
    await refusal(readAll(await odd.connect()), 'Unavailable')
  })

  test('429 and 403 instead of a stream keep their reasons', async () => {
    const busy = await startScriptedServer((_request, response) =>
      response.writeHead(429, { 'retry-after': '1' }).end('busy'),
    )
    await refusal(readAll(await busy.connect()), 'TooManyRequests')
    const forbidden = await startScriptedServer((_request, response) =>
      response.writeHead(403).end(statusBody(403, 'Forbidden', 'cannot watch')),
    )
    await refusal(readAll(await forbidden.connect()), 'Forbidden')
  })

  test('a line that is not an event is Unavailable, not skipped', async () => {
    for (const line of ['nonsense', '{"type":"ADDED"}', '{"type":"SURPRISE","object":{}}', '[]']) {
      const server = await startScriptedServer((_request, response) => response.end(`${line}\n`))
      await refusal(readAll(await server.connect()), 'Unavailable')
    }
  })

  test('a line without end is aborted at the limit', async () => {
    const server = await startScriptedServer((_request, response) => {
      const part = Buffer.alloc(64 * 1024, 'x')
      const more = (): void => {
        while (!response.destroyed && response.write(part));
      }
      response.on('drain', more)
      more()
    })
    const cluster = await server.connect({ limits: { eventBytes: 256 * 1024 } })
    expect((await refusal(readAll(cluster), 'Unavailable')).message).toContain('more than 262144 bytes')
    await expect.poll(() => server.open()).toBe(0)
  })
})

describe('connections', () => {
  test('if a connection breaks within an event, the watch delivers the complete events, then Unavailable', async () => {
    const server = await startScriptedServer((_request, response) => {
      response.writeHead(200)
      response.write(added('one') + added('two').slice(0, 40))
      setTimeout(() => response.destroy(), 20)
    })
    const cluster = await server.connect()
    const watch = collect(cluster, 'ConfigMap', { resourceVersion: '1' })
    await watch.until(1)
    await expect.poll(() => watch.ended()).toMatchObject({ error: { reason: 'Unavailable' } })
    expect(watch.events).toHaveLength(1)
  })

  test('if the server closes a stream regularly, the watch ends without an error', async () => {
    const server = await startScriptedServer((_request, response) => response.end(added('one')))
    expect(await readAll(await server.connect())).toHaveLength(1)
  })

  test('a silent connection ends the watch, and is closed', async () => {
    const server = await startScriptedServer((_request, response) => void response.writeHead(200).write(added('one')))
    const cluster = await server.connect({ limits: { watchIdleMs: 100 } })
    expect(await readAll(cluster)).toHaveLength(1)
    await expect.poll(() => server.open()).toBe(0)
  })

  test('a slow consumer does not count as a silent connection', async () => {
    const server = await startScriptedServer((_request, response) => {
      response.writeHead(200)
      response.write(added('one'))
      setTimeout(() => response.end(added('two')), 20)
    })
    const cluster = await server.connect({ limits: { watchIdleMs: 100 } })
    const { signal } = new AbortController()
    const names: string[] = []
    for await (const event of cluster.watch('ConfigMap', { resourceVersion: '1', signal })) {
      if (event.type !== 'BOOKMARK') names.push(event.object.metadata.name)
      const until = Date.now() + 250
      await expect.poll(() => Date.now() >= until).toBe(true)
    }
    expect(names).toEqual(['one', 'two'])
  })

  test('a server that never starts to respond is Unavailable', async () => {
    const server = await startScriptedServer(() => undefined)
    const cluster = await server.connect({ limits: { answerMs: 100 } })
    await refusal(readAll(cluster), 'Unavailable')
    await expect.poll(() => server.open()).toBe(0)
  })

  test('an abort ends the watch without an error and frees the connection, before the response and after', async () => {
    for (const handler of [
      () => undefined,
      ((_request, response) => void response.writeHead(200).write('')) as Handler,
    ]) {
      const server = await startScriptedServer(handler)
      const watch = collect(await server.connect(), 'ConfigMap', { resourceVersion: '1' })
      await expect.poll(() => server.open()).toBe(1)
      await watch.stop()
      await expect.poll(() => server.open()).toBe(0)
    }
  })

  test('leaving the loop frees the connection', async () => {
    const server = await startScriptedServer((_request, response) => void response.writeHead(200).write(added('one')))
    const { signal } = new AbortController()
    const cluster = await server.connect()
    for await (const _event of cluster.watch('ConfigMap', { resourceVersion: '1', signal })) break
    await expect.poll(() => server.open()).toBe(0)
  })

  test('closing the client ends its watches', async () => {
    const server = await startScriptedServer((_request, response) => void response.writeHead(200).write(added('one')))
    const cluster = await server.connect()
    const watch = collect(cluster, 'ConfigMap', { resourceVersion: '1' })
    await watch.until(1)
    await cluster.close()
    await expect.poll(() => watch.ended()).toEqual({})
  })
})
