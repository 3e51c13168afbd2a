import { expect, test } from 'vitest'
import type { Event } from '../../../cluster/index.ts'
import { newestEvent } from './provisioning.ts'

const event = (type: string, reason: string, message: string, at: Partial<Event>): Event => ({
  apiVersion: 'v1',
  kind: 'Event',
  metadata: { name: reason, namespace: 'databases' },
  involvedObject: { kind: 'PersistentVolumeClaim', name: 'claim' },
  type,
  reason,
  message,
  ...at,
})
const [early, late] = ['2026-01-02T03:04:05Z', '2026-01-02T03:05:05Z']

test.each<[string, Event[], string | undefined]>([
  ['nothing', [], undefined],
  [
    'a normal event',
    [event('Normal', 'ExternalProvisioning', 'waiting', { lastTimestamp: early })],
    'ExternalProvisioning: waiting',
  ],
  [
    'a warning before a normal event',
    [
      event('Warning', 'ProvisioningFailed', 'no space', { lastTimestamp: early }),
      event('Normal', 'Provisioning', 'External provisioner is provisioning', { lastTimestamp: late }),
    ],
    'ProvisioningFailed: no space',
  ],
  [
    'the newest event, whichever field has its time',
    [
      event('Warning', 'Old', 'one', { lastTimestamp: early }),
      event('Warning', 'New', 'two', { eventTime: late }),
      event('Warning', 'Older', 'three', {}),
    ],
    'New: two',
  ],
  [
    'a message on one line, without a secret',
    [event('Warning', 'Failed', 'rpc error\n  password=hunter2 refused', {})],
    'Failed: rpc error password=*** refused',
  ],
])('a claim reports %s', (_what, events, expected) => {
  expect(newestEvent(events)).toBe(expected)
})

test('a long message is truncated', () => {
  expect(newestEvent([event('Warning', 'Failed', 'x'.repeat(5_000), {})])).toHaveLength(408)
})
