/** When a replica should be sent requests. */
// @ts-nocheck

import { expect, test } from 'vitest'
import type { InformerState } from '../cluster/informer/index.ts'
import { unreadiness } from './caches.ts'

const state = (changes: Partial<InformerState>): InformerState => ({
  kind: 'Task',
  synced: true,
  objects: 0,
  lastSync: 0,
  failingSince: undefined,
  lists: 1,
  events: 0,
  failures: 0,
  handlerErrors: 0,
  ...changes,
})

test.each([
  ['all filled', [state({}), state({})], undefined],
  ['one not filled yet', [state({}), state({ synced: false })], 'the caches are being filled'],
  ['one failing for a moment', [state({ failingSince: 110_000 })], undefined],
  [
    'one failing for two minutes',
    [state({}), state({ failingSince: 79_000 })],
    'the cluster has been out of reach for a while',
  ],
])('%s', (_what, states, reason) => expect(unreadiness(states, 200_000)).toBe(reason))
