import fc from 'fast-check'
import { pino } from 'pino'
import { describe, expect, test } from 'vitest'
import { type Cluster, ClusterError, type ClusterErrorReason, type ConfigMap, type Event } from '../cluster/index.ts'
import { SimulatedClock, settle } from '../cluster/testing/simulated-clock.ts'
import { createEventRecorder, truncateUtf8, withoutSecrets } from './events.ts'
import { createMetrics } from './metrics.ts'

const logger = pino({ level: 'silent' })
const subject = (name: string, namespace?: string): ConfigMap => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, ...(namespace && { namespace }), uid: `uid-${name}`, resourceVersion: '7' },
})

function open(rate = { perSecond: 1, burst: 5 }) {
  const clock = new SimulatedClock()
  const stored = new Map<string, Event>()
  const metrics = createMetrics()
  const server = { fault: undefined as ClusterErrorReason | 'hang' | undefined, requests: 0, version: 0 }
  const store = (event: Event) => {
    const saved = { ...event, metadata: { ...event.metadata, resourceVersion: String(++server.version) } }
    stored.set(event.metadata.name, saved)
    return saved
  }
  const answer = async (perform: () => Event): Promise<Event> => {
    server.requests++
    if (server.fault === 'hang') return await new Promise<Event>(() => {})
    if (server.fault) throw new ClusterError(server.fault, 'scripted')
    return perform()
  }
  const port = {
    create: (_kind: string, event: Event) => answer(() => store(event)),
    replace: (_kind: string, event: Event) =>
      answer(() => {
        const current = stored.get(event.metadata.name)
        if (!current) throw new ClusterError('NotFound', 'expired')
        if (current.metadata.resourceVersion !== event.metadata.resourceVersion)
          throw new ClusterError('Conflict', 'changed')
        return store(event)
      }),
  }
  const recorder = createEventRecorder({
    // The recorder writes only Events; the port's type parameter cannot express that.
    cluster: port as unknown as Cluster,
    component: 'espalier-operator',
    instance: 'one',
    logger,
    metrics,
    rate,
    clock,
  })
  const counts = async () => {
    const text = await metrics.registry.metrics()
    const count = (outcome: string) =>
      Number(new RegExp(`events_total\\{outcome="${outcome}"\\} (\\d+)`).exec(text)?.[1] ?? 0)
    return { written: count('written'), dropped: count('dropped') }
  }
  return { clock, stored, server, recorder, counts }
}

describe('events', () => {
  test('identical object, reason and message give one Event whose count grows', async () => {
    const { clock, stored, recorder } = open()
    recorder.record(subject('orders', 'tenant'), 'Warning', 'VolumeLost', 'The volume is gone.')
    await settle()
    await clock.advance(90_000)
    recorder.record(subject('orders', 'tenant'), 'Warning', 'VolumeLost', 'The volume is gone.')
    await settle()
    recorder.record(subject('orders', 'tenant'), 'Normal', 'Available', 'It serves.')
    await settle()
    expect([...stored.values()]).toMatchObject([
      {
        metadata: { namespace: 'tenant', name: expect.stringMatching(/^orders\.[0-9a-f]{16}$/) },
        involvedObject: { apiVersion: 'v1', kind: 'ConfigMap', namespace: 'tenant', name: 'orders', uid: 'uid-orders' },
        type: 'Warning',
        reason: 'VolumeLost',
        message: 'The volume is gone.',
        count: 2,
        firstTimestamp: '2030-01-01T00:00:00Z',
        lastTimestamp: '2030-01-01T00:01:30Z',
        source: { component: 'espalier-operator' },
      },
      { reason: 'Available', count: 1 },
    ])
    await recorder.stop()
    expect(clock.pending).toBe(0)
  })

  test('all records during a write become one write afterwards', async () => {
    const { stored, server, recorder } = open({ perSecond: 1, burst: 100 })
    for (let n = 0; n < 50; n++) recorder.record(subject('orders', 'tenant'), 'Normal', 'Seen', 'Again.')
    await settle()
    expect([...stored.values()].map(({ count }) => count)).toEqual([50])
    expect(server.requests).toBeLessThanOrEqual(2)
    await recorder.stop()
  })

  test('an object with too many Events loses its surplus Events; other objects lose none', async () => {
    const { clock, stored, recorder, counts } = open({ perSecond: 1, burst: 5 })
    for (let n = 0; n < 20; n++) recorder.record(subject('noisy', 'tenant'), 'Normal', 'Seen', `number ${n}`)
    recorder.record(subject('quiet', 'tenant'), 'Normal', 'Seen', 'once')
    await settle()
    expect(stored.size).toBe(6)
    expect(await counts()).toEqual({ written: 6, dropped: 15 })
    await clock.advance(1_000)
    recorder.record(subject('noisy', 'tenant'), 'Normal', 'Seen', 'later')
    await settle()
    expect(stored.size).toBe(7)
    await recorder.stop()
  })

  test('an Event that expired, or that another client changed, is created again with its count', async () => {
    const { stored, recorder } = open()
    recorder.record(subject('orders', 'tenant'), 'Normal', 'Seen', 'x')
    await settle()
    stored.clear()
    recorder.record(subject('orders', 'tenant'), 'Normal', 'Seen', 'x')
    await settle()
    expect([...stored.values()].map(({ count }) => count)).toEqual([2])
    await recorder.stop()
  })

  test('an error is retried a few times, then the Event is dropped; the caller gets no error', async () => {
    const { clock, stored, server, recorder, counts } = open()
    server.fault = 'Unavailable'
    recorder.record(subject('orders', 'tenant'), 'Normal', 'Seen', 'x')
    await clock.advance(10_000)
    expect(server.requests).toBe(3)
    expect(await counts()).toEqual({ written: 0, dropped: 1 })
    server.fault = 'Forbidden'
    recorder.record(subject('orders', 'tenant'), 'Normal', 'Seen', 'y')
    await settle()
    expect(server.requests).toBe(4)
    server.fault = undefined
    recorder.record(subject('orders', 'tenant'), 'Normal', 'Seen', 'x')
    await settle()
    expect([...stored.values()].map(({ count }) => count)).toEqual([2])
    await recorder.stop()
  })

  test('stop does not wait for a server that hangs', async () => {
    const { clock, server, recorder } = open()
    server.fault = 'hang'
    recorder.record(subject('orders', 'tenant'), 'Normal', 'Seen', 'x')
    const stopped = recorder.stop()
    recorder.record(subject('orders', 'tenant'), 'Normal', 'Seen', 'too late')
    await clock.advance(2_000)
    await stopped
    expect(server.requests).toBe(1)
    expect(clock.pending).toBe(0)
  })

  test('a cluster-scoped object has its Events in the namespace default; long names fit', async () => {
    const { stored, recorder } = open()
    recorder.record(subject('n'.repeat(253)), 'Normal', 'r'.repeat(300), 'x')
    await settle()
    const [event] = stored.values()
    expect(event?.metadata.namespace).toBe('default')
    expect(event?.metadata.name.length).toBeLessThanOrEqual(253)
    expect(event?.reason).toHaveLength(128)
    await recorder.stop()
  })
})

describe('messages', () => {
  test('are truncated at 1,024 bytes, at a character boundary', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', maxLength: 60 }), fc.integer({ min: 3, max: 60 }), (text, bytes) => {
        const truncated = truncateUtf8(text, bytes)
        expect(Buffer.byteLength(truncated)).toBeLessThanOrEqual(bytes)
        if (Buffer.byteLength(text) <= bytes) expect(truncated).toBe(text)
        else expect(text.startsWith(truncated.slice(0, -1)) && truncated.endsWith('…')).toBe(true)
      }),
    )
  })

  test.each([
    ['cannot reach postgres://app:hunter2@host:5432/app', 'cannot reach postgres://***@host:5432/app'],
    ['connection string password=hunter2 host=x', 'connection string password=*** host=x'],
    ['{"password": "hunter2 and more", "host": "x"}', '{"password": ***, "host": "x"}'],
    ['sent Authorization: Bearer abc.def-ghi', 'sent Authorization: Bearer ***'],
    ['-----BEGIN EC PRIVATE KEY-----\nMHcC\n-----END EC PRIVATE KEY----- end', '[private key] end'],
    ['the token bucket of the password policy is empty', 'the token bucket of the password policy is empty'],
  ])('are redacted where they look like a secret: %s', (text, expected) => {
    expect(withoutSecrets(text)).toBe(expected)
  })
})
