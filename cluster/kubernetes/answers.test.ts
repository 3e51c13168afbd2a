/** How the adapter handles responses and faults of an API server: refusals, floods, silence, closed connections. */
import { createServer } from 'node:net'
import { inspect } from 'node:util'
import { pino } from 'pino'
import { describe, expect, test } from 'vitest'
import type { ClusterErrorReason } from '../index.ts'
import { refusal } from '../testing/conformance/suite.ts'
import { type Handler, startScriptedServer, statusBody, writeKubeconfig } from '../testing/scripted-server.ts'

const key = { namespace: 'default', name: 'one' }
const answer =
  (code: number, body: string, headers: Record<string, string> = {}): Handler =>
  (_request, response) =>
    response.writeHead(code, { 'content-type': 'application/json', ...headers }).end(body)

describe('error responses', () => {
  const cases: { what: string; code: number; body: string; reason: ClusterErrorReason; message: string }[] = [
    {
      what: '429 with a Status',
      code: 429,
      body: statusBody(429, 'TooManyRequests', 'too many requests, please try again later'),
      reason: 'TooManyRequests',
      message: 'retry after 3 s',
    },
    { what: '429 in plain text', code: 429, body: 'Too many', reason: 'TooManyRequests', message: 'retry after 3 s' },
    {
      what: '500 in HTML',
      code: 500,
      body: '<html>\u0000\nboom</html>',
      reason: 'Unavailable',
      message: '<html> boom',
    },
    { what: '502 without a body', code: 502, body: '', reason: 'Unavailable', message: 'HTTP 502' },
    {
      what: 'a server that is starting',
      code: 503,
      body: statusBody(503, 'ServiceUnavailable', 'apiserver not ready'),
      reason: 'Unavailable',
      message: 'apiserver not ready',
    },
    {
      what: 'etcd that timed out',
      code: 500,
      body: statusBody(500, 'Timeout', 'etcdserver: request timed out'),
      reason: 'Unavailable',
      message: 'etcdserver',
    },
    {
      what: 'credentials that are refused',
      code: 401,
      body: statusBody(401, 'Unauthorized', 'Unauthorized'),
      reason: 'Unavailable',
      message: 'Unauthorized',
    },
    {
      what: 'a role that lacks the verb',
      code: 403,
      body: statusBody(403, 'Forbidden', 'secrets is forbidden: User "x" cannot list'),
      reason: 'Forbidden',
      message: 'cannot list',
    },
    {
      what: 'a kind that is not served',
      code: 404,
      body: '404 page not found',
      reason: 'Unavailable',
      message: 'not serve',
    },
    {
      what: 'a kind that is not served, with a Status',
      code: 404,
      body: statusBody(404, 'NotFound', 'the server could not find the requested resource', {}),
      reason: 'Unavailable',
      message: 'not serve',
    },
    {
      what: '200 that is not JSON',
      code: 200,
      body: '<html>log in first</html>',
      reason: 'Unavailable',
      message: 'not JSON',
    },
    { what: 'a redirect', code: 302, body: '', reason: 'BadRequest', message: 'HTTP 302' },
  ]
  for (const { what, code, body, reason, message } of cases)
    test(what, async () => {
      const server = await startScriptedServer(answer(code, body, { 'retry-after': '3' }))
      const cluster = await server.connect()
      expect((await refusal(cluster.get('ManagedDatabase', key), reason)).message).toContain(message)
      expect((await refusal(cluster.list('ManagedDatabase'), reason)).message).toContain(message)
      if (code !== 200) await refusal(cluster.delete('ManagedDatabase', key), reason)
    })

  test('a deletion carries the propagation policy and the preconditions', async () => {
    const bodies: unknown[] = []
    const server = await startScriptedServer((request, response) => {
      let text = ''
      request.setEncoding('utf8').on('data', part => {
        text += part
      })
      request.on('end', () => {
        bodies.push(JSON.parse(text))
        response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
      })
    })
    const cluster = await server.connect()
    const propagations = [undefined, 'Background', 'Foreground', 'Orphan'] as const
    for (const propagation of propagations) await cluster.delete('ConfigMap', key, { propagation, uid: 'one' })
    expect(bodies).toEqual(
      propagations.map(propagation => ({
        apiVersion: 'v1',
        kind: 'DeleteOptions',
        propagationPolicy: propagation ?? 'Background',
        preconditions: { uid: 'one' },
      })),
    )
  })

  test('for an absent object, get returns undefined and delete succeeds', async () => {
    const body = statusBody(404, 'NotFound', 'configmaps "one" not found', { name: 'one', kind: 'configmaps' })
    const cluster = await (await startScriptedServer(answer(404, body))).connect()
    expect(await cluster.get('ConfigMap', key)).toBeUndefined()
    await cluster.delete('ConfigMap', key)
  })

  test('a field conflict is distinguished from a version conflict', async () => {
    const body = statusBody(409, 'Conflict', 'Apply failed with 1 conflict', {
      causes: [{ reason: 'FieldManagerConflict', message: 'conflict with "kubectl"', field: '.data.a' }],
    })
    const cluster = await (await startScriptedServer(answer(409, body))).connect()
    const draft = { apiVersion: 'v1', kind: 'ConfigMap', metadata: key } as const
    await refusal(cluster.apply('ConfigMap', draft), 'FieldConflict')
    const other = await (await startScriptedServer(answer(409, statusBody(409, 'Conflict', 'modified')))).connect()
    await refusal(other.apply('ConfigMap', draft), 'Conflict')
  })
})

describe('faults of the connection', () => {
  test('no server listens', async () => {
    const server = await startScriptedServer(answer(200, '{}'))
    const cluster = await server.connect()
    await server.stop()
    const { message } = await refusal(cluster.get('ConfigMap', key), 'Unavailable')
    expect(message).toContain('ECONNREFUSED')
    const { signal } = new AbortController()
    const read = async (): Promise<void> => {
      for await (const _event of cluster.watch('ConfigMap', { resourceVersion: '1', signal })) break
    }
    await refusal(read(), 'Unavailable')
  })

  test('a server that accepts the request and never responds', async () => {
    const server = await startScriptedServer(() => undefined)
    const cluster = await server.connect({ limits: { answerMs: 150 } })
    expect((await refusal(cluster.get('ConfigMap', key), 'Unavailable')).message).toContain('within 150 ms')
    await expect.poll(() => server.open()).toBe(0)
  })

  test('a server that sends its response too slowly', async () => {
    const server = await startScriptedServer((_request, response) => {
      response.writeHead(200)
      const timer = setInterval(() => response.write(' '), 10)
      response.on('close', () => clearInterval(timer))
    })
    const cluster = await server.connect({ limits: { answerMs: 200 } })
    expect((await refusal(cluster.get('ConfigMap', key), 'Unavailable')).message).toContain('within 200 ms')
  })

  test('a port that accepts connections and does not speak TLS', async () => {
    const silent = createServer(socket => socket.on('error', () => undefined).resume())
    await new Promise<void>(resolve => silent.listen(0, '127.0.0.1', resolve))
    const address = silent.address()
    if (address === null || typeof address === 'string') throw new Error('no port')
    const server = await startScriptedServer(answer(200, '{}'))
    const kubeconfig = writeKubeconfig(server.directory, { server: `https://127.0.0.1:${address.port}` }, {})
    const cluster = await server.connect({ kubeconfig, limits: { connectMs: 150 } })
    const { message } = await refusal(cluster.get('ConfigMap', key), 'Unavailable')
    expect(message).toContain('no connection within 150 ms')
    await new Promise(resolve => silent.close(resolve))
  })

  test('a response cut off in the middle', async () => {
    const server = await startScriptedServer((_request, response) => {
      response.writeHead(200, { 'content-length': '1000' })
      response.write('{"items":[')
      setImmediate(() => response.destroy())
    })
    await refusal((await server.connect()).list('ConfigMap'), 'Unavailable')
  })

  test('a response without end is aborted at the limit', async () => {
    let sent = 0
    const server = await startScriptedServer((_request, response) => {
      response.writeHead(200)
      const part = Buffer.alloc(64 * 1024, ' ')
      const more = (): void => {
        while (!response.destroyed && response.write(part)) sent += part.length
        sent += part.length
      }
      response.on('drain', more)
      more()
    })
    const cluster = await server.connect({ limits: { answerBytes: 1024 * 1024 } })
    expect((await refusal(cluster.list('ConfigMap'), 'Unavailable')).message).toContain('larger than 1048576 bytes')
    await expect.poll(() => server.open()).toBe(0)
    expect(sent).toBeLessThan(64 * 1024 * 1024)
  })

  test('after close every call is refused', async () => {
    const server = await startScriptedServer(() => undefined)
    const cluster = await server.connect()
    const pending = refusal(cluster.get('ConfigMap', key), 'Unavailable')
    await expect.poll(() => server.open()).toBe(1)
    await cluster.close()
    expect((await pending).message).toContain('closed')
    expect((await refusal(cluster.get('ConfigMap', key), 'Unavailable')).message).toContain('closed')
  })
})

describe('connections', () => {
  test('one connection serves many sequential requests; concurrent requests stay below the limit', async () => {
    const server = await startScriptedServer((_request, response) =>
      setTimeout(() => response.end('{"metadata":{}}'), 5),
    )
    const cluster = await server.connect({ limits: { connections: 4 } })
    for (let index = 0; index < 10; index += 1) await cluster.get('ConfigMap', key)
    expect(server.opened()).toBe(1)
    await Promise.all(Array.from({ length: 40 }, () => cluster.get('ConfigMap', key)))
    expect(server.opened()).toBe(4)
  })

  test('if the server closes a connection, the client opens another', async () => {
    const server = await startScriptedServer((_request, response) => {
      response.setHeader('connection', 'close')
      response.end('{"metadata":{}}')
    })
    const cluster = await server.connect()
    for (let index = 0; index < 5; index += 1) await cluster.get('ConfigMap', key)
    expect(server.opened()).toBe(5)
  })

  test('no error and no log line contains the token', async () => {
    const lines: string[] = []
    const logger = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) })
    for (const handler of [answer(500, 'no'), answer(200, 'no\n'), ((_q, response) => response.destroy()) as Handler]) {
      const server = await startScriptedServer(handler)
      const cluster = await server.connect({ logger })
      const { signal } = new AbortController()
      for (const action of [
        cluster.get('ConfigMap', key),
        cluster.list('ConfigMap'),
        (async () => {
          for await (const _event of cluster.watch('ConfigMap', { resourceVersion: '1', signal })) break
        })(),
      ]) {
        const error = await refusal(action, 'Unavailable')
        logger.error({ error, err: error }, 'refused')
        expect(inspect(error, { depth: 20, showHidden: true })).not.toContain('a-token')
      }
    }
    expect(lines.length).toBeGreaterThan(8)
    expect(lines.join('')).not.toContain('a-token')
  })
})

describe('requests', () => {
  test('writes carry field manager and strict validation; apply is forced, with its own media type', async () => {
    const seen: string[] = []
    const server = await startScriptedServer((request, response) => {
      seen.push(`${request.method} ${request.url} ${request.headers['content-type']} ${request.headers.authorization}`)
      request.resume().on('end', () => response.end('{"metadata":{}}'))
    })
    const cluster = await server.connect()
    const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { ...key, resourceVersion: '1' } } as const
    await cluster.create('ConfigMap', object)
    await cluster.replace('ConfigMap', object)
    await cluster.apply('ConfigMap', object)
    const path = '/api/v1/namespaces/default/configmaps'
    const query = 'fieldManager=test&fieldValidation=Strict'
    expect(seen).toEqual([
      `POST ${path}?${query} application/json Bearer a-token`,
      `PUT ${path}/one?${query} application/json Bearer a-token`,
      `PATCH ${path}/one?${query}&force=true application/apply-patch+yaml Bearer a-token`,
    ])
  })

  test('fields and text that a typed model would drop are preserved', async () => {
    const lease = {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { ...key, creationTimestamp: '2026-01-02T03:04:05Z' },
      spec: { renewTime: '2026-01-02T03:04:05.123456Z', unheardOf: { 世界: [null, 1.5] } },
    }
    const cluster = await (await startScriptedServer(answer(200, JSON.stringify(lease)))).connect()
    expect(await cluster.get('Lease', key)).toEqual(lease)
  })

  test('logs are requested with timestamps and a size limit, and returned as lines', async () => {
    const seen: string[] = []
    const server = await startScriptedServer((request, response) => {
      seen.push(request.url ?? '')
      response.end('2026-01-02T03:04:05.000000006Z one\n2026-01-02T03:04:05.000000007Z \n2026-01-02T03:04:06Z drei ü\n')
    })
    const cluster = await server.connect({ limits: { logBytes: 1000 } })
    const lines = await cluster.logs(key, { container: 'postgres', tailLines: 3, sinceTime: '2026-01-02T03:04:05Z' })
    expect(lines).toEqual([
      '2026-01-02T03:04:05.000000006Z one',
      '2026-01-02T03:04:05.000000007Z ',
      '2026-01-02T03:04:06Z drei ü',
    ])
    expect(seen).toEqual([
      '/api/v1/namespaces/default/pods/one/log?container=postgres&tailLines=3&sinceTime=2026-01-02T03%3A04%3A05Z&timestamps=true&limitBytes=1000',
    ])
    await cluster.logs(key)
    expect(seen[1]).toBe('/api/v1/namespaces/default/pods/one/log?timestamps=true&limitBytes=1000')
    await cluster.logs(key, { previous: true })
    expect(seen[2]).toBe('/api/v1/namespaces/default/pods/one/log?previous=true&timestamps=true&limitBytes=1000')
  })
})

test("the API server's clock is read from every response, also from an error", async () => {
  const dates = ['Sun, 22 Nov 2026 12:00:00 GMT', 'not a date', 'Sun, 22 Nov 2026 12:00:05 GMT']
  const codes = [404, 404, 429]
  let requests = 0
  const server = await startScriptedServer((request, response) => {
    const at = requests++
    return answer(codes[at] ?? 404, statusBody(codes[at] ?? 404, 'NotFound', 'no'), { date: dates[at] ?? '' })(
      request,
      response,
    )
  })
  const heard: number[] = []
  const cluster = await server.connect({ onDate: serverMs => heard.push(serverMs) })
  for (const _ of dates) await cluster.get('ConfigMap', key).catch(() => {})
  expect(heard).toEqual([Date.UTC(2026, 10, 22, 12), Date.UTC(2026, 10, 22, 12, 0, 5)])
})
